/** Finds the keys of all projects that end soon, the next to end first. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default [
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS api_keys_by_expiry ON api_keys (expires_at)`
  )
]
