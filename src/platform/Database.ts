/** PostgreSQL: the pool, its migrations, and how a request asks it. */
import { NodeServices } from "@effect/platform-node"
import { PgClient, PgMigrator } from "@effect/sql-pg"
import { Data, Duration, Effect, Layer, Option, type Redacted, Schedule } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { fromFileSystem } from "effect/sql/MigratorFileSystem"
import { fileURLToPath } from "node:url"
import { ServiceUnavailable } from "../api/Problems.ts"
import { EmbeddedPostgres } from "./EmbeddedPostgres.ts"
import { Settings } from "./Settings.ts"

/** The database can't be used; the message says why, in a line for the operator. */
export class DatabaseUnusable extends Data.TaggedError("DatabaseUnusable")<{
  readonly message: string
  readonly cause: unknown
}> {}

/** How long a request waits for the database, connecting included, before it is told so (contract §15: within 5 s). */
const patience = Duration.seconds(4)

/**
 * The pool. Statements of many requests are pipelined on few connections, so a request needs none of its own;
 * four to a connection keep enough backends busy that their commits share a flush.
 */
const client = (url: Redacted.Redacted, maxConnections: number) =>
  PgClient.layer({
    url,
    applicationName: "developer-api",
    maxConnections,
    connectTimeout: patience,
    multiplex: true,
    multiplexConcurrency: 4
  })

/** The client of the database that the settings name: `DATABASE_URL`, or the embedded one under `DATA_DIR`. */
export const layer = Layer.unwrap(
  Effect.map(Settings, ({ dataDir, databaseMaxConnections, databaseUrl }) =>
    Option.match(databaseUrl, {
      onSome: (url) => Layer.orDie(client(url, databaseMaxConnections)),
      onNone: () =>
        Layer.unwrap(
          Effect.map(EmbeddedPostgres, (embedded) => Layer.orDie(client(embedded.url, databaseMaxConnections)))
        ).pipe(Layer.provide(EmbeddedPostgres.layer({ directory: dataDir })))
    })
  )
)

const directory = fileURLToPath(new URL("../../migrations", import.meta.url))
const loader = fromFileSystem(directory)

/** "dev-api!" in ASCII: the advisory lock that lets one process migrate at a time. */
const migrationLock = 7_234_304_496_243_601_697n

/** Applies what is pending, in one transaction, and tells what that was. */
export const migrate = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* sql.withTransaction(
    Effect.gen(function* () {
      yield* sql`SELECT pg_advisory_xact_lock(${migrationLock})`
      return yield* PgMigrator.run({ loader })
    })
  )
}).pipe(Effect.provide(NodeServices.layer))

/** Fails unless every migration has been applied. */
export const assertMigrated = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const known = yield* loader
  const [table] = yield* sql<{ exists: boolean }>`
    SELECT to_regclass('effect_sql_migrations') IS NOT NULL AS exists`
  const applied =
    table?.exists === true ? yield* sql<{ id: number }>`SELECT migration_id AS id FROM effect_sql_migrations` : []
  const pending = known.filter(([id]) => !applied.some((row) => row.id === id))
  if (pending.length > 0) {
    return yield* new DatabaseUnusable({
      message: `${pending.length} migrations are pending: run \`npm run --silent cli -- migrate\``,
      cause: undefined
    })
  }
}).pipe(Effect.provide(NodeServices.layer))

/** Nothing answered, or what answered is going away: worth another try later. */
const isUnavailable = (error: SqlError.SqlError) =>
  error.reason._tag === "ConnectionError" || error.reason._tag === "StatementTimeoutError"

const unavailable = () => new ServiceUnavailable({ detail: "The database does not answer. Send the request again." })

/** Rolled back because of what others do at the same time: what it did is undone, and another try may well pass. */
const isContended = (error: SqlError.SqlError) =>
  error.reason._tag === "LockTimeoutError" ||
  error.reason._tag === "DeadlockError" ||
  error.reason._tag === "SerializationError"

const again = Schedule.spaced(Duration.millis(25)).pipe(Schedule.jittered)

/**
 * Runs a request's statement. A database that can't be reached in time is a problem of the moment; any other failure
 * of SQL is a bug. Statements are pipelined, so one that expects to wait long for a lock asks with NOWAIT and is sent
 * again instead: those behind it on its connection don't wait with it.
 */
export const statement = <A, R>(
  effect: Effect.Effect<A, SqlError.SqlError, R>
): Effect.Effect<A, ServiceUnavailable, R> =>
  effect.pipe(
    Effect.retry({ while: isContended, schedule: again }),
    Effect.catchTag("SqlError", (error) => (isUnavailable(error) ? Effect.fail(unavailable()) : Effect.die(error))),
    Effect.timeoutOrElse({ duration: patience, orElse: () => Effect.fail(unavailable()) })
  )
