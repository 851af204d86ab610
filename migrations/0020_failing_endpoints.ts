/** Adds an index of the failing endpoints of all projects, by the start of their failing period. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default [
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS endpoint_health_failing
      ON endpoint_health (failing_since, project_id, installation_id) WHERE failing_since IS NOT NULL`
  )
]
