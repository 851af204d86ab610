/** Adds an index for the list of keys, newest first. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default [
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS api_keys_by_age ON api_keys (project_id, created_at DESC, key_id DESC)`
  )
]
