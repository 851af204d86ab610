/**
 * The migrations of the database, in `migrations/`: the baseline, which creates the tables, and online migrations. While an
 * online migration runs, and for a time after it, processes of the previous version still answer requests. So the migration must
 * not hold a lock for long; `test/platform/database/Migrations.test.ts` checks the text of each migration for this.
 *
 * A migration is either an effect, which runs in a transaction, or an array of effects, which run in order without a
 * transaction, for `CREATE INDEX CONCURRENTLY` and similar. If an effect of an array fails, the next attempt runs the whole
 * array again. So each effect of an array must be repeatable.
 */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { PgClient } from "@effect/sql-pg"
import { Data, Duration, Effect, Predicate, Schedule } from "effect"
import { type Migrator, SqlClient, type SqlError } from "effect/sql"
import { fromFileSystem } from "effect/sql/MigratorFileSystem"
import { fileURLToPath } from "node:url"
import { analyzeChanged, reportChanges } from "./Statistics.ts"

const directory = fileURLToPath(new URL("../../../migrations", import.meta.url))
const loader = fromFileSystem(directory)

/** The key of the advisory lock that lets one process migrate at a time: "dev-api!" in ASCII. */
const lock = 7_234_304_496_243_601_697n

/**
 * A statement that waits for a table's lock blocks all later statements on the table. So it fails after this time and is
 * retried.
 */
const lockTimeout = "2s"
const again = { schedule: Schedule.spaced(Duration.seconds(1)), times: 60 }

/** A migration failed. It has changed nothing, or can be run again. Earlier migrations stay applied. */
export class MigrationFailed extends Data.TaggedError("MigrationFailed")<{
  readonly name: string
  readonly cause: unknown
}> {
  override get message() {
    return `Migration ${this.name} failed`
  }
}

const fileOf = (id: number, name: string) => `${String(id).padStart(4, "0")}_${name}`

type Step = Effect.Effect<unknown, SqlError.SqlError, SqlClient.SqlClient>

const isStep = (value: unknown): value is Step => Effect.isEffect(value)

interface Applied {
  readonly id: number
}

const readApplied = (sql: SqlClient.SqlClient) => sql<Applied>`SELECT migration_id AS id FROM effect_sql_migrations`

const pendingOf = (known: ReadonlyArray<Migrator.ResolvedMigration>, applied: ReadonlyArray<Applied>) =>
  known.filter(([id]) => !applied.some((row) => row.id === id))

const applyPending = <R>(migrations: Migrator.Loader<R>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    yield* sql`
      CREATE TABLE IF NOT EXISTS effect_sql_migrations (
        migration_id integer PRIMARY KEY, created_at timestamptz NOT NULL DEFAULT now(), name text NOT NULL
      )`
    const missing = pendingOf(yield* migrations, yield* readApplied(sql))
    for (const migration of missing) yield* apply(sql, migration)
    if (missing.length > 0) yield* Effect.andThen(reportChanges(sql), analyzeChanged(sql))
    return missing.map(([id, name]) => [id, name] as const)
  })

const apply = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  [id, name, load]: Migrator.ResolvedMigration
): Effect.fn.Return<void, MigrationFailed, SqlClient.SqlClient> {
  const failed = (cause: unknown) => new MigrationFailed({ name: fileOf(id, name), cause })
  const module: unknown = yield* Effect.mapError(load, failed)
  const migration = Predicate.hasProperty(module, "default") ? module.default : undefined
  const record = sql`INSERT INTO effect_sql_migrations (migration_id, name) VALUES (${id}, ${name})`
  if (isStep(migration)) {
    const isLocked = ({ reason }: SqlError.SqlError) => reason._tag === "LockTimeoutError"
    return yield* sql`SELECT set_config('lock_timeout', ${lockTimeout}, true)`.pipe(
      Effect.andThen(migration),
      Effect.andThen(record),
      sql.withTransaction,
      Effect.retry({ while: isLocked, ...again }),
      Effect.mapError(failed),
      Effect.asVoid
    )
  }
  if (!Array.isArray(migration) || !migration.every(isStep)) return yield* failed("it exports no effect")
  yield* Effect.mapError(Effect.andThen(dropInvalid(sql), Effect.all([...migration, record])), failed)
})

/**
 * Drops the invalid indexes that a failed CREATE INDEX CONCURRENTLY has left. A repetition with IF NOT EXISTS would keep them.
 */
const dropInvalid = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
  const indexes = yield* sql<{ name: string }>`
    SELECT indexrelid::regclass::text AS name FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
    WHERE NOT indisvalid AND relkind = 'i' AND relnamespace = current_schema()::regnamespace`
  for (const { name } of indexes) yield* sql`DROP INDEX CONCURRENTLY ${sql.literal(name)}`
})

/**
 * Waits for the lock by repeated attempts. A single statement that waits would be a deadlock: its transaction stays open, and
 * CREATE INDEX CONCURRENTLY, run by the holder of the lock, waits for all open transactions.
 */
const takeLock = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
  const take = sql<{ taken: boolean }>`SELECT pg_try_advisory_lock(${lock}) AS taken`
  yield* Effect.repeat(take, { until: ([row]) => row?.taken === true, schedule: Schedule.spaced(Duration.millis(100)) })
})

/** Applies the pending migrations of a directory on a new connection, which holds the lock until it closes. */
export const migrateFrom = (directory: string) =>
  Effect.gen(function* () {
    const { config } = yield* PgClient.PgClient
    return yield* Effect.flatMap(SqlClient.SqlClient, takeLock).pipe(
      Effect.andThen(applyPending(fromFileSystem(directory))),
      Effect.provide(PgClient.layer({ ...config, maxConnections: 1, multiplex: false }))
    )
  }).pipe(Effect.withSpan("migrate"), Effect.provide(NodeServices.layer))

export const migrate = migrateFrom(directory)

export class MigrationsPending extends Data.TaggedError("MigrationsPending")<{ readonly count: number }> {
  override get message() {
    return `${this.count} migrations are pending: run \`npm run --silent cli -- migrate\``
  }
}

/** `unknown` counts the applied migrations that this version does not know. */
export const migrationStatus = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const known = yield* loader
  const [table] = yield* sql<{ exists: boolean }>`
    SELECT to_regclass('effect_sql_migrations') IS NOT NULL AS exists`
  const applied = table?.exists === true ? yield* readApplied(sql) : []
  return {
    pending: pendingOf(known, applied).length,
    unknown: applied.filter((row) => !known.some(([id]) => row.id === id)).length
  }
}).pipe(Effect.provide(NodeServices.layer))

export const assertMigrated = Effect.gen(function* () {
  const { pending } = yield* migrationStatus
  if (pending > 0) return yield* new MigrationsPending({ count: pending })
})
