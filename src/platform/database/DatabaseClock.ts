/** The clock of leases and due times. It is PostgreSQL's clock, because all processes share it. */
import { Context, Effect } from "effect"
import type { SqlClient, Statement } from "effect/sql"

type Sql = SqlClient.SqlClient

/** Returns the current time as an SQL expression. It is stable within a statement, so conditions on it can use an index. */
export const DatabaseClock = Context.Reference<(sql: Sql) => Effect.Effect<Statement.Fragment>>(
  "developer-api/platform/database/DatabaseClock",
  { defaultValue: () => (sql) => Effect.succeed(sql`statement_timestamp()`) }
)

/** Returns the clock as an effect. A service resolves the clock when the service is built. */
export const databaseNow = (sql: Sql): Effect.Effect<Effect.Effect<Statement.Fragment>> =>
  Effect.map(DatabaseClock, (clock) => Effect.suspend(() => clock(sql)))

export const later = (sql: Sql, from: Statement.Fragment, millis: number | null): Statement.Fragment =>
  sql`(${from} + ${millis}::float8 * interval '1 millisecond')`
