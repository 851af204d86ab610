/** Keeps the index of lists by state from other statements: before the first ANALYZE, the planner takes it for look-ups by id. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default [
  // Each delivery has a type, so the condition is always true. Lists state it, as they name the type.
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS deliveries_listed ON deliveries (project_id, installation_id, (
        CASE
          WHEN finished_at IS NULL THEN 'pending' COLLATE "C"
          WHEN coalesce(attempt_log -> -1 ->> 'statusCode', '') LIKE '2__' THEN 'delivered'
          WHEN replayed_by IS NOT NULL THEN 'replayed'
          ELSE 'dead'
        END
      ), event_type, id) WHERE event_type IS NOT NULL`
  ),
  Effect.flatMap(SqlClient.SqlClient, (sql) => sql`DROP INDEX CONCURRENTLY IF EXISTS deliveries_by_listed_state`)
]
