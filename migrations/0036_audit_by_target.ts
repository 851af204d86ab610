/** Makes the index of actions by their target again, by bytes: an index by another collation is wrong after an upgrade of its library. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default [
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS audit_entries_of_target
      ON audit_entries (project_id, target COLLATE "C", id)`
  ),
  Effect.flatMap(SqlClient.SqlClient, (sql) => sql`DROP INDEX CONCURRENTLY IF EXISTS audit_entries_by_target`)
]
