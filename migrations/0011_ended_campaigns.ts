/** Adds an index of the ended campaigns whose recipients are still stored. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default [
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS campaigns_ended ON campaigns (project_id, updated_at)
      WHERE status IN ('completed', 'cancelled') AND NOT recipients_removed`
  )
]
