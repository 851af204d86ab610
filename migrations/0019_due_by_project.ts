/** Adds indexes of the due endpoints of each project, so that a claim can take from all projects in turn. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default [
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS endpoint_health_by_project ON endpoint_health (project_id, claim_at)
      WHERE claim_at IS NOT NULL AND NOT suspect`
  ),
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS endpoint_health_by_project_suspect ON endpoint_health (project_id, claim_at)
      WHERE claim_at IS NOT NULL AND suspect`
  )
]
