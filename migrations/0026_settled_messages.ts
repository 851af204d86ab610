/** Adds an index of the messages that retention deletes, so that a run reads no message of unknown outcome. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default [
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS messages_settled ON messages (project_id, updated_at)
      WHERE status IN ('sent', 'failed')`
  )
]
