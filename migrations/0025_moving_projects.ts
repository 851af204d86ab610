/** Adds an index of the projects that are being moved. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default [
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS projects_moving ON projects (project_id) WHERE move_state IS NOT NULL`
  )
]
