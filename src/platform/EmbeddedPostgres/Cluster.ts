import { Effect, Exit, Redacted } from "effect"
import { randomBytes } from "node:crypto"
import { link, mkdir, mkdtemp, readdir, readFile, realpath, rename, rm, stat, writeFile } from "node:fs/promises"
import * as Path from "node:path"
import * as Binaries from "./Binaries.ts"
import { attempt, EmbeddedPostgresError } from "./EmbeddedPostgresError.ts"
import { linesFrom, sizeOf } from "./Log.ts"
import * as Privileges from "./Privileges.ts"
import { gone, isRunning, signal, spawn } from "./Processes.ts"

/** A data directory on which PostgreSQL can start, and the data to start it and connect to it. */
export interface Cluster {
  /** `<DATA_DIR>/postgres`, symbolic links resolved: the same path in every process that shares it. */
  readonly data: string
  readonly log: string
  readonly password: Redacted.Redacted
  readonly postgres: string
  readonly privileges: Privileges.Privileges
  readonly flags: Readonly<Record<string, string>>
}

/** Opens the cluster below `directory` (DATA_DIR), and creates it on first use. Starts no server. */
export const open = Effect.fnUntraced(function* (options: {
  readonly directory: string
  readonly flags?: Readonly<Record<string, string>> | undefined
}): Effect.fn.Return<Cluster, EmbeddedPostgresError> {
  const binaries = yield* Binaries.locate
  const directory = yield* attempt(`Cannot create the data directory ${options.directory}`, async () => {
    await mkdir(options.directory, { recursive: true })
    return realpath(options.directory)
  })
  const data = Path.join(directory, "postgres")
  const place: Place = {
    directory,
    data,
    log: Path.join(directory, "postgres.log"),
    passwordFile: Path.join(directory, "postgres-password"),
    initdb: binaries.initdb,
    privileges: yield* Privileges.resolve({ directory, data, binaries }),
    flags: options.flags ?? {}
  }
  if (yield* exists(Path.join(data, "PG_VERSION"))) {
    yield* place.privileges.reclaim(data)
  } else {
    yield* create(place)
  }
  const password = yield* attempt(
    `The password of the database in ${data} is lost (restore the file, or remove both)`,
    () => readFile(place.passwordFile, "utf8")
  )
  return { ...place, postgres: binaries.postgres, password: Redacted.make(password.trim()) }
})

interface Place extends Omit<Cluster, "password" | "postgres"> {
  readonly directory: string
  readonly passwordFile: string
  readonly initdb: string
}

const exists = (path: string) =>
  Effect.promise(() =>
    stat(path).then(
      () => true,
      () => false
    )
  )

// Creates the cluster in a staging directory and moves it into place, so that a crash leaves no partial cluster. Of two
// concurrent processes, the first to move wins and the other uses its cluster.
const create = (place: Place) =>
  Effect.acquireUseRelease(
    Effect.andThen(
      removeLeftovers(place.directory),
      attempt(`Cannot write to the data directory ${place.directory}`, () =>
        mkdtemp(Path.join(place.directory, stagingPrefix))
      )
    ),
    (staging) => createIn(staging, place),
    removeAll
  )

const createIn = Effect.fnUntraced(function* (staging: string, place: Place) {
  const pwfile = Path.join(staging, "pwfile")
  yield* attempt(`Cannot write the password file ${place.passwordFile}`, async () => {
    const password = await createOrReadPassword(staging, place.passwordFile)
    await writeFile(pwfile, password, { mode: 0o600 })
  })
  yield* place.privileges.give(staging)
  yield* initdb(place, [
    `--pgdata=${Path.join(staging, "data")}`,
    `--pwfile=${pwfile}`,
    "--username=postgres",
    "--auth=scram-sha-256",
    "--encoding=UTF8",
    "--locale=C",
    "--no-instructions",
    ...(place.flags["fsync"] === "off" ? ["--no-sync"] : [])
  ])
  yield* attempt(`${place.data} is in the way: it is not a PostgreSQL data directory`, () =>
    rename(Path.join(staging, "data"), place.data).catch(async (cause: unknown) => {
      await stat(Path.join(place.data, "PG_VERSION")).catch(() => Promise.reject(cause))
    })
  )
})

/**
 * Creates the password as a hard link, which appears with its whole content and never replaces another: all processes
 * read the same password.
 */
const createOrReadPassword = async (staging: string, passwordFile: string): Promise<string> => {
  const proposal = Path.join(staging, "password")
  // Flushed, as a stored cluster without its password would be lost.
  await writeFile(proposal, randomBytes(24).toString("hex"), { mode: 0o600, flush: true })
  await link(proposal, passwordFile).catch(async (cause: unknown) => {
    await stat(passwordFile).catch(() => Promise.reject(cause))
  })
  await rm(proposal)
  return readFile(passwordFile, "utf8")
}

const initdb = (place: Place, args: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const from = yield* sizeOf(place.log)
    const command = place.privileges.command(place.initdb, args)
    const ended = yield* Effect.acquireUseRelease(
      spawn(command, place.log),
      (child) => child.exited,
      // After an interruption, no process may go on writing below the directory that is about to be removed.
      (child, exit) =>
        Exit.isSuccess(exit) ? Effect.void : Effect.andThen(signal(-child.pid, "SIGKILL"), gone(child.pid, "20 millis"))
    )
    if (ended === "exit code 0") return
    const said = yield* linesFrom(place.log, from)
    return yield* new EmbeddedPostgresError({
      reason: "Failed",
      message: `PostgreSQL could not create its data directory (initdb: ${ended}): ${said.at(-1) ?? "no message"}; see ${place.log}`
    })
  })

// Process ids are reused (in a container it is always 1), hence the random part.
const stagingPrefix = `postgres.init-${process.pid}-${randomBytes(4).toString("hex")}-`

const removeLeftovers = Effect.fnUntraced(function* (directory: string) {
  const names = yield* attempt(`Cannot read the data directory ${directory}`, () => readdir(directory))
  for (const name of names) {
    const maker = Number(/^postgres\.init-(\d+)-/.exec(name)?.[1])
    if (Number.isNaN(maker) || name.startsWith(stagingPrefix)) continue
    const abandoned = maker === process.pid || !(yield* isRunning(maker))
    if (abandoned) yield* removeAll(Path.join(directory, name))
  }
})

// Best effort: an initdb whose parent was killed may still be writing. The directory then stays until the next start.
const removeAll = (path: string) =>
  Effect.promise(() => rm(path, { recursive: true, force: true }).catch(() => undefined))
