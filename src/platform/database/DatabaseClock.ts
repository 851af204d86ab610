/** The clock of leases and due times. All processes share it: it is the clock of PostgreSQL. */
import { Context, Effect } from "effect"
import type { SqlClient, Statement } from "effect/sql"

type Sql = SqlClient.SqlClient

/**
 * The current time as an SQL expression. It is stable within a statement, so an index can be used to compare with it.
 */
export const DatabaseClock = Context.Reference<(sql: Sql) => Effect.Effect<Statement.Fragment>>(
  "developer-api/platform/database/DatabaseClock",
  { defaultValue: () => (sql) => Effect.succeed(sql`statement_timestamp()`) }
)

/** Returns the clock of a service, resolved once when the service is built. */
export const databaseNow = (sql: Sql): Effect.Effect<Effect.Effect<Statement.Fragment>> =>
  Effect.map(DatabaseClock, (clock) => Effect.suspend(() => clock(sql)))

/** Returns the time `millis` milliseconds after another; NULL for null. */
export const later = (sql: Sql, from: Statement.Fragment, millis: number | null): Statement.Fragment =>
  sql`(${from} + ${millis}::float8 * interval '1 millisecond')`
