/** A temporary PostgreSQL for the whole test run: fast, because it does not have to survive a crash. */
import { Effect, ManagedRuntime, Redacted } from "effect"
import { execFile } from "node:child_process"
import { existsSync, readdirSync } from "node:fs"
import { mkdir, mkdtemp, readFile, realpath, rm, writeFile } from "node:fs/promises"
import * as Os from "node:os"
import * as Path from "node:path"
import { promisify } from "node:util"
import * as Cluster from "../../src/platform/database/EmbeddedPostgres/Cluster.ts"
import * as Privileges from "../../src/platform/database/EmbeddedPostgres/Privileges.ts"
import { EmbeddedPostgres } from "../../src/platform/database/EmbeddedPostgres.ts"
import * as Server from "../../src/platform/database/EmbeddedPostgres/Server.ts"

const flags = {
  fsync: "off",
  synchronous_commit: "off",
  full_page_writes: "off",
  max_connections: "400",
  shared_buffers: "64MB"
}

/** `url` is a superuser's; `stop` removes everything. */
interface Started {
  readonly url: string
  readonly stop: () => Promise<void>
}

/** Starts a server below the system's temporary directory. */
export const startPostgres = async (): Promise<Started> => {
  const directory = await mkdtemp(Path.join(Os.tmpdir(), "developer-api-test-"))
  const runtime = ManagedRuntime.make(EmbeddedPostgres.layer({ directory, flags }))
  const stop = async () => {
    await runtime.dispose()
    // The layer leaves the server running for other connected users; here these are leaks of tests, and it is stopped.
    const lock = await readFile(Path.join(directory, "postgres", "postmaster.pid"), "utf8").catch(() => undefined)
    if (lock !== undefined) await Effect.runPromise(Server.stop(Number.parseInt(lock, 10)))
    await rm(directory, { recursive: true, force: true })
  }
  try {
    const { url } = await runtime.runPromise(EmbeddedPostgres)
    return { url: Redacted.value(url), stop }
  } catch (cause) {
    await stop()
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
  const directory = await realpath(await mkdtemp(Path.join(Os.tmpdir(), "developer-api-test-")))
  const data = Path.join(directory, "postgres")
  const programs = Path.join(debian, String(version), "bin")
  const privileges = await Effect.runPromise(Privileges.resolve(data, programs))
  const password = "test"
  const passwordFile = Path.join(directory, "postgres-password")
  await writeFile(passwordFile, password)
  await mkdir(data)
  for (const path of [directory, data]) await Effect.runPromise(privileges.give(path))
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
    flags
  }
  const { pid, port } = await Effect.runPromise(Server.start(cluster, () => Effect.void))
  return {
    url: Redacted.value(Cluster.urlOf(cluster, port, "postgres")),
    stop: async () => {
      await Effect.runPromise(Server.stop(pid))
      await rm(directory, { recursive: true, force: true })
    }
  }
}
