/** The clock of leases and due times: PostgreSQL's own, the same for every process, whatever their clocks say. */
import { Context, Effect } from "effect"
import type { SqlClient, Statement } from "effect/sql"

type Sql = SqlClient.SqlClient

/** The current time as an SQL expression. It is stable within a statement, so an index can answer a comparison with it. */
export const DatabaseClock = Context.Reference<(sql: Sql) => Effect.Effect<Statement.Fragment>>(
  "developer-api/platform/DatabaseClock",
  { defaultValue: () => (sql) => Effect.succeed(sql`statement_timestamp()`) }
)

/** The clock of a service, taken once when it is built: each run tells the time. */
export const databaseNow = (sql: Sql): Effect.Effect<Effect.Effect<Statement.Fragment>> =>
  Effect.map(DatabaseClock, (clock) => Effect.suspend(() => clock(sql)))

/** A time so many milliseconds after another; NULL where there are none. */
export const later = (sql: Sql, from: Statement.Fragment, millis: number | null): Statement.Fragment =>
  sql`(${from} + ${millis}::float8 * interval '1 millisecond')`
