import { Effect, Exit, Redacted } from "effect"
import { randomBytes } from "node:crypto"
import { link, mkdir, mkdtemp, readdir, readFile, realpath, rename, rm, stat, writeFile } from "node:fs/promises"
import * as Path from "node:path"
import * as Binaries from "./Binaries.ts"
import { attempt, EmbeddedPostgresError } from "./EmbeddedPostgresError.ts"
import { linesFrom, sizeOf } from "./Log.ts"
import * as Privileges from "./Privileges.ts"
import { gone, isRunning, signal, spawn } from "./Processes.ts"

/** A data directory that PostgreSQL can start on, and all that is needed to start and enter it. */
export interface Cluster {
  /** `<DATA_DIR>/postgres`, symbolic links resolved: the same path in every process that shares it. */
  readonly data: string
  readonly log: string
  readonly password: Redacted.Redacted
  readonly postgres: string
  readonly privileges: Privileges.Privileges
  readonly flags: Readonly<Record<string, string>>
}

/** Opens the cluster below `directory` (DATA_DIR), creating it on first use. Nothing runs yet. */
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

// The cluster is made elsewhere and moved into place whole, so that a crash leaves none rather than half of one.
// Where two processes do so at once, the first to move wins and the other takes what it finds.
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
    const password = await agreeOnPassword(staging, place.passwordFile)
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

/** A hard link appears with its whole content and never replaces another: all processes read one password. */
const agreeOnPassword = async (staging: string, passwordFile: string): Promise<string> => {
  const proposal = Path.join(staging, "password")
  // Flushed, as a cluster on disk whose password is not would be lost.
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
      // Interrupted half way: nothing of it may go on writing below the directory that is about to be removed.
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

// Process ids are used again (in a container ours is always 1), hence the second part.
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

// Best effort: an initdb whose maker was killed may still be writing there. Then it is left for the next time.
const removeAll = (path: string) =>
  Effect.promise(() => rm(path, { recursive: true, force: true }).catch(() => undefined))
