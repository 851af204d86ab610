/** Adds the index of the failed recipients of an audience by error code. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default [
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS campaign_recipients_failed
      ON campaign_recipients (project_id, audience_id, (coalesce(error_code, 'unknown')), position) WHERE status = 'failed'`
  )
]
