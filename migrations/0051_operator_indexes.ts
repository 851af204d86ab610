/**
 * Indexes what waits for operators: dead deliveries by age, and messages of unknown outcome. What tells a dead delivery from a
 * delivered one is its last attempt: a condition on `status` would keep a claim from updating the row alone (HOT), and only a
 * result changes the attempt log.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default [
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS deliveries_dead ON deliveries (project_id, id)
      WHERE finished_at IS NOT NULL AND coalesce(attempt_log -> -1 ->> 'statusCode', '') NOT LIKE '2__'`
  ),
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS messages_unknown ON messages (project_id, created_at DESC, id DESC)
      WHERE status = 'unknown'`
  )
]
