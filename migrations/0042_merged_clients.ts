/** Finds the clients that are merged into another: who removes a client would else have to read all of its project. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default [
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS clients_merged_into ON clients (project_id, merged_into_client_id)
      WHERE merged_into_client_id IS NOT NULL`
  )
]
