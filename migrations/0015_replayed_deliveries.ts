/** Adds indexes of the deliveries of an installation by age, and of the unfinished deliveries of a replay. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default [
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS deliveries_by_installation ON deliveries (project_id, installation_id, id)`
  ),
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS deliveries_of_replays ON deliveries (project_id, replay_id)
      WHERE replay_id IS NOT NULL AND finished_at IS NULL`
  )
]
