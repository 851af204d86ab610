/** A PostgreSQL for a test run or a benchmark, which ends with it. */
import { Effect, Redacted } from "effect"
import { execFile } from "node:child_process"
import { existsSync, readdirSync, rmSync, statfsSync } from "node:fs"
import { chmod, mkdir, mkdtemp, realpath, rm, writeFile } from "node:fs/promises"
import * as Os from "node:os"
import * as Path from "node:path"
import { promisify } from "node:util"
import * as Cluster from "../../src/sql/embedded/Cluster.ts"
import { resolvePrivileges } from "../../src/sql/embedded/Processes.ts"
import * as Server from "../../src/sql/embedded/Server.ts"

/** Fast, because the server does not have to survive a crash. */
const fast = {
  fsync: "off",
  synchronous_commit: "off",
  full_page_writes: "off",
  max_connections: "400",
  shared_buffers: "64MB",
  max_wal_size: "128MB"
}

/** A file system in memory. */
const memory = "/dev/shm"

/**
 * Returns where a fast server has its files: in memory if that has 4 GiB left. A database has hundreds of files, and ext4 takes twenty
 * times as long to create them, once others have been removed.
 */
const placeOfFast = (): string => {
  if (!existsSync(memory)) return Os.tmpdir()
  const { bavail, bsize } = statfsSync(memory)
  return bavail * bsize > 4 * 1024 ** 3 ? memory : Os.tmpdir()
}

/** Creates a directory that every user may enter, as PostgreSQL does not run as root; by default below the system's temporary directory. */
export const openDirectory = async (prefix: string, parent = Os.tmpdir()): Promise<string> => {
  const directory = await mkdtemp(Path.join(parent, prefix))
  await chmod(directory, 0o711)
  return directory
}

/** `url` is a superuser's; `stop` removes everything. */
interface Started {
  readonly url: string
  readonly stop: () => Promise<void>
}

/** Starts a server in a directory of its own. */
export const startPostgres = async (flags: Readonly<Record<string, string>> = fast): Promise<Started> => {
  const directory = await openDirectory("developer-api-test-", flags === fast ? placeOfFast() : undefined)
  const remove = () => rm(directory, { recursive: true, force: true })
  try {
    const cluster = await Effect.runPromise(Cluster.open({ directory, flags }))
    // Its port is chosen at random, and may be taken.
    const { pid, port } = await Effect.runPromise(Effect.retry(Server.start(cluster, Effect.succeed), { times: 5 }))
    // A run that is interrupted stops nothing.
    const abandon = () => {
      process.kill(pid, "SIGQUIT")
      rmSync(directory, { recursive: true, force: true })
    }
    process.once("exit", abandon)
    const stop = async () => {
      process.off("exit", abandon)
      await Effect.runPromise(Server.stop(pid))
      await remove()
    }
    return { url: Redacted.value(Cluster.ownerUrlOf(cluster, port, "postgres")), stop }
  } catch (cause) {
    await remove()
    throw cause
  }
}

/** Where Debian's packages `postgresql-15` and the like have the programs of each version. */
const debian = "/usr/lib/postgresql"

/** The versions of PostgreSQL that are installed besides the embedded one. */
export const installedVersions: ReadonlyArray<number> = existsSync(debian)
  ? readdirSync(debian)
      .filter((version) => existsSync(Path.join(debian, version, "bin/initdb")))
      .map(Number)
      .filter((version) => version >= 15)
  : []

/** Starts a server of an installed version, as `startPostgres` does of the embedded one. */
export const startInstalled = async (version: number): Promise<Started> => {
  const directory = await realpath(await openDirectory("developer-api-test-"))
  const data = Path.join(directory, "postgres")
  const programs = Path.join(debian, String(version), "bin")
  const privileges = await Effect.runPromise(resolvePrivileges(data))
  const password = "test"
  const passwordFile = Path.join(directory, "postgres-password")
  await writeFile(passwordFile, password)
  await mkdir(data)
  for (const path of [passwordFile, data]) await Effect.runPromise(privileges.give(path))
  const [command = "", ...args] = [
    ...privileges.prefix,
    Path.join(programs, "initdb"),
    `--pgdata=${data}`,
    `--pwfile=${passwordFile}`,
    "--username=postgres",
    "--auth=scram-sha-256",
    "--encoding=UTF8",
    "--locale=C",
    "--no-sync"
  ]
  await promisify(execFile)(command, args)
  const cluster = {
    ...privileges,
    data,
    log: Path.join(directory, "postgres.log"),
    password: Redacted.make(password),
    postgres: Path.join(programs, "postgres"),
    flags: fast
  }
  const { pid, port } = await Effect.runPromise(Server.start(cluster, Effect.succeed))
  return {
    url: Redacted.value(Cluster.ownerUrlOf(cluster, port, "postgres")),
    stop: async () => {
      await Effect.runPromise(Server.stop(pid))
      await rm(directory, { recursive: true, force: true })
    }
  }
}
