/**
 * Replaces the index of deliveries by age by one for expiry alone. In a plan that is made while the table is empty or not analyzed it looks
 * as good for a claim as `deliveries_open` does, but there it reads and sorts all open deliveries of a project. Expiry states
 * its condition, which is always true; a claim does not.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default [
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS deliveries_by_age_of_open
      ON deliveries (project_id, (greatest(created_at, retried_at)))
      WHERE finished_at IS NULL AND created_at > '-infinity'`
  ),
  Effect.flatMap(SqlClient.SqlClient, (sql) => sql`DROP INDEX CONCURRENTLY IF EXISTS deliveries_by_age`)
]
