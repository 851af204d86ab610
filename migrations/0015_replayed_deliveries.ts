/** Leaves dead deliveries that a replay has delivered out of the index of dead ones and of the lists by state. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

const statement = (text: (sql: SqlClient.SqlClient) => Effect.Effect<unknown, unknown>) =>
  Effect.flatMap(SqlClient.SqlClient, text)

export default [
  statement(
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS deliveries_left_dead ON deliveries (project_id, id)
      WHERE finished_at IS NOT NULL AND replayed_by IS NULL
        AND coalesce(attempt_log -> -1 ->> 'statusCode', '') NOT LIKE '2__'`
  ),
  statement((sql) => sql`DROP INDEX CONCURRENTLY IF EXISTS deliveries_dead`),
  // The expression is the state that the API shows, which a claim does not change.
  statement(
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS deliveries_by_listed_state ON deliveries (project_id, installation_id, (
        CASE
          WHEN finished_at IS NULL THEN 'pending' COLLATE "C"
          WHEN coalesce(attempt_log -> -1 ->> 'statusCode', '') LIKE '2__' THEN 'delivered'
          WHEN replayed_by IS NOT NULL THEN 'replayed'
          ELSE 'dead'
        END
      ), event_type, id)`
  ),
  statement((sql) => sql`DROP INDEX CONCURRENTLY IF EXISTS deliveries_by_state`)
]
