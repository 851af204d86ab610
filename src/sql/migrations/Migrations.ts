/**
 * The migrations of the database, in `migrations/`: the baseline, which creates the tables, and online migrations. While an
 * online migration runs, and for a time after it, processes of the previous version still answer requests. So the migration must
 * not hold a lock for long; `test/sql/migrations/Migrations.test.ts` checks the text of each migration for this.
 *
 * A migration is either an effect, which runs in a transaction, or an array of effects, which run in order without a
 * transaction, for `CREATE INDEX CONCURRENTLY` and similar. If an effect of an array fails, the next attempt runs the whole
 * array again. So each effect of an array must be repeatable.
 */
import { PgClient } from "@effect/sql-pg"
import { Data, Duration, Effect, Predicate, Schedule } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { fileURLToPath, pathToFileURL } from "node:url"
import { adopt, createLedger, type Migration, readMigrations, record, statusOf } from "./Ledger.ts"

const directory = fileURLToPath(new URL("../../../migrations", import.meta.url))

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

type Step = Effect.Effect<unknown, SqlError.SqlError, SqlClient.SqlClient>

const isStep = (value: unknown): value is Step => Effect.isEffect(value)

const applyPending = Effect.fnUntraced(function* (directory: string) {
  const sql = yield* SqlClient.SqlClient
  const known = yield* readMigrations(directory)
  yield* createLedger(sql)
  yield* adopt(sql, known)
  const { pending } = yield* statusOf(sql, known)
  for (const migration of pending) yield* apply(sql, migration)
  if (pending.length > 0) yield* Effect.andThen(reportChanges(sql), analyzeChanged(sql))
  return pending.map(({ name }) => name)
})

const apply = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  migrationFile: Migration
): Effect.fn.Return<void, MigrationFailed, SqlClient.SqlClient> {
  const failed = (cause: unknown) => new MigrationFailed({ name: migrationFile.name, cause })
  const module: unknown = yield* Effect.tryPromise({
    try: () => import(pathToFileURL(migrationFile.path).href),
    catch: failed
  })
  const migration = Predicate.hasProperty(module, "default") ? module.default : undefined
  const applied = record(sql, migrationFile)
  if (isStep(migration)) {
    const isLocked = ({ reason }: SqlError.SqlError) => reason._tag === "LockTimeoutError"
    return yield* sql`SELECT set_config('lock_timeout', ${lockTimeout}, true)`.pipe(
      Effect.andThen(migration),
      Effect.andThen(applied),
      sql.withTransaction,
      Effect.retry({ while: isLocked, ...again }),
      Effect.mapError(failed),
      Effect.asVoid
    )
  }
  if (!Array.isArray(migration) || !migration.every(isStep)) return yield* failed("it exports no effect")
  yield* Effect.mapError(Effect.andThen(dropInvalid(sql), Effect.all([...migration, applied])), failed)
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
      Effect.andThen(applyPending(directory)),
      Effect.provide(PgClient.layer({ ...config, maxConnections: 1, multiplex: false }))
    )
  }).pipe(Effect.withSpan("migrate"))

export const migrate = migrateFrom(directory)

class MigrationsPending extends Data.TaggedError("MigrationsPending")<{ readonly count: number }> {
  override get message() {
    return `${this.count} migrations are pending: run \`npm run --silent cli -- migrate\``
  }
}

/** Compares the database with the migrations of this version. Fails with `MigrationsDiffer` if they contradict each other. */
export const migrationStatus = Effect.gen(function* () {
  return yield* statusOf(yield* SqlClient.SqlClient, yield* readMigrations(directory))
})

export const assertMigrated = Effect.gen(function* () {
  const { pending } = yield* migrationStatus
  if (pending.length > 0) return yield* new MigrationsPending({ count: pending.length })
})

/** Maximum time for all tables. Autovacuum analyzes the tables that are left. */
const limit = Duration.seconds(30)

/**
 * Makes PostgreSQL publish this session's counts of changed rows at the end of the transaction, so that `analyzeChanged` sees
 * them.
 */
export const reportChanges = (sql: SqlClient.SqlClient) => sql`SELECT pg_stat_force_next_flush()`

/**
 * Analyzes the tables that have changed enough for autovacuum, which would notice only at its next run, up to a minute later.
 * Skips tables that the role does not own or that another session locks. Never fails: statistics only make plans better.
 */
export const analyzeChanged = (sql: SqlClient.SqlClient): Effect.Effect<void> =>
  Effect.gen(function* () {
    const tables = yield* sql<{ readonly name: string }>`
      SELECT pg_class.oid::regclass::text AS name FROM pg_stat_user_tables JOIN pg_class ON pg_class.oid = relid
      WHERE relnamespace = current_schema()::regnamespace AND pg_has_role(relowner, 'USAGE')
        AND n_mod_since_analyze > 50 + greatest(reltuples, 0) / 10`
    for (const { name } of tables) {
      yield* sql`SELECT set_config('lock_timeout', '1s', true), set_config('statement_timeout', '10s', true)`.pipe(
        Effect.andThen(sql`ANALYZE ${sql.literal(name)}`),
        sql.withTransaction,
        Effect.ignore
      )
    }
  }).pipe(Effect.timeoutOption(limit), Effect.ignore, Effect.withSpan("analyze"))
