/** The clock of leases and due times. It is PostgreSQL's clock, because all processes share it. */
import { Clock, Context, Effect } from "effect"
import type { SqlClient, SqlError, Statement } from "effect/sql"

type Sql = SqlClient.SqlClient

/**
 * Returns the current time as an SQL expression. The expression is stable within a statement, so a condition with it can use an
 * index.
 */
export const DatabaseClock = Context.Reference<(sql: Sql) => Effect.Effect<Statement.Fragment>>(
  "developer-api/sql/DatabaseClock",
  { defaultValue: () => (sql) => Effect.succeed(sql`statement_timestamp()`) }
)

/** Resolves the clock once, when a service is built. Returns an effect that makes the SQL expression of the current time. */
export const databaseNow = (sql: Sql): Effect.Effect<Effect.Effect<Statement.Fragment>> =>
  Effect.map(DatabaseClock, (clock) => Effect.suspend(() => clock(sql)))

export const later = (sql: Sql, from: Statement.Fragment, millis: number | null): Statement.Fragment =>
  sql`(${from} + ${millis}::float8 * interval '1 millisecond')`

/**
 * Returns the milliseconds by which the clocks of this host and the database differ at least. The database's time is compared with
 * the middle of `before` and `after`. The possible error, half of the time between these, is subtracted.
 */
export const clockDifference = Effect.fnUntraced(function* (sql: Sql): Effect.fn.Return<number, SqlError.SqlError> {
  // The first statement also waits for a connection, so its time is not measured.
  yield* sql`SELECT 1`
  const before = yield* Clock.currentTimeMillis
  const [there] = yield* sql<{ millis: number }>`
    SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS millis`
  const after = yield* Clock.currentTimeMillis
  return Math.max(0, Math.abs((there?.millis ?? 0) - (before + after) / 2) - (after - before) / 2)
})
