/**
 * Adds indexes of the values by which an import preview finds clients. Without the indexes, a preview reads all clients of
 * all projects three times. The indexes are partial: a look-up by id that is planned while the table is empty can't use
 * them, and they have no entries for clients without the value.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default [
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS clients_by_external_id ON clients (project_id, external_id)
      WHERE external_id IS NOT NULL`
  ),
  // The same expression as in the preview. A mail address is ASCII, so the locale of the database does not matter.
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS clients_by_email ON clients (project_id, lower(email COLLATE "C"))
      WHERE lower(email COLLATE "C") IS NOT NULL`
  ),
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS clients_by_phone ON clients (project_id, phone)
      WHERE phone IS NOT NULL`
  )
]
