/** The clock of leases and due times. It is PostgreSQL's clock, because all processes share it. */
import { Context, Effect } from "effect"
import type { SqlClient, Statement } from "effect/sql"

type Sql = SqlClient.SqlClient

/**
 * Returns the current time as an SQL expression. The expression is stable within a statement, so a condition with it can use an
 * index.
 */
export const DatabaseClock = Context.Reference<(sql: Sql) => Effect.Effect<Statement.Fragment>>(
  "developer-api/platform/database/DatabaseClock",
  { defaultValue: () => (sql) => Effect.succeed(sql`statement_timestamp()`) }
)

/** Resolves the clock once, when a service is built. Returns an effect that makes the SQL expression of the current time. */
export const databaseNow = (sql: Sql): Effect.Effect<Effect.Effect<Statement.Fragment>> =>
  Effect.map(DatabaseClock, (clock) => Effect.suspend(() => clock(sql)))

export const later = (sql: Sql, from: Statement.Fragment, millis: number | null): Statement.Fragment =>
  sql`(${from} + ${millis}::float8 * interval '1 millisecond')`
