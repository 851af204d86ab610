/**
 * Indexes the values by which an import preview finds clients. Without them it reads all clients of all projects, three
 * times. They are partial so that a look-up by id can't use them in a plan that is made for an empty table, and clients
 * without the value cost nothing.
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
  // The expression of the preview: a mail address is ASCII, whatever the locale of the database.
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
