/** Runs commands against `DATABASE_URL`, or the embedded database of `DATA_DIR`. */
import { Effect, Layer, Logger, Option, References } from "effect"
import { userInfo } from "node:os"
import { Operator } from "../operating/Audit.ts"
import { sqlClients, DatabaseUrl } from "../sql/Connections.ts"
import { assertMigrated, migrate } from "../sql/migrations/Migrations.ts"
import { Notifier } from "../outbox/Outbox.ts"
import { Settings } from "../platform/Settings.ts"
import { signalled } from "./Run.ts"

const operator = Layer.sync(Operator, () => Operator.of({ actor: userName() }))

const on = (mayCreate: boolean) => {
  const database = Notifier.layerInline.pipe(
    Layer.provideMerge(sqlClients.operator),
    Layer.provideMerge(DatabaseUrl.layer("command", mayCreate)),
    Layer.provideMerge(Settings.layer),
    Layer.merge(operator)
  )
  return <A, E, R>(command: Effect.Effect<A, E, R>) =>
    command.pipe(
      Effect.provide(database),
      stoppable,
      Effect.provideService(Logger.LogToStderr, true),
      Effect.provideService(References.MinimumLogLevel, "Warn")
    )
}

/** Runs a command on the database, even if migrations are pending. */
export const onDatabase = on(false)

/** Like `onDatabase`, but creates the embedded database if there is none. */
export const onNewDatabase = on(true)

/** Runs a command on a migrated database. Migrates the embedded database. Fails if `DATABASE_URL` has pending migrations. */
export const onMigratedDatabase = <A, E, R>(command: Effect.Effect<A, E, R>) =>
  onDatabase(Effect.andThen(migrated, command))

export const migrated = Effect.gen(function* () {
  const { databaseUrl } = yield* Settings
  // On the embedded database, `migrate` runs only if migrations are pending, because it opens a connection of its own and waits
  // for other migrations.
  if (Option.isSome(databaseUrl)) return yield* assertMigrated
  yield* Effect.catchTag(assertMigrated, "MigrationsPending", () => Effect.asVoid(migrate))
})

/** Interrupts a command on SIGINT or SIGTERM, so that finalizers stop an embedded database that the command has started. */
const stoppable = Effect.raceFirst(Effect.andThen(signalled, Effect.interrupt))

/** Returns the user's name, or the user's number if no name is known, as in containers. */
const userName = (): string => {
  try {
    return userInfo().username
  } catch {
    return `uid ${process.getuid?.() ?? "unknown"}`
  }
}
