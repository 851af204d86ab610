/** Drops an index of deliveries. Its statements merge the parts of `deliveries_by_state` instead. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default [
  Effect.flatMap(SqlClient.SqlClient, (sql) => sql`DROP INDEX CONCURRENTLY IF EXISTS deliveries_by_installation`)
]
