/**
 * Makes the external ids of a project's deals unique, and adds the indexes of the filters of clients and deals. A list in the order of
 * changes has an index for each filter by which a project may have many records. The records with one mail address or one phone
 * number are few: they are sorted.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

const statement = (text: (sql: SqlClient.SqlClient) => Effect.Effect<unknown, unknown>) =>
  Effect.flatMap(SqlClient.SqlClient, text)

export default [
  statement(
    (sql) => sql`
      CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS deals_external_id ON deals (project_id, external_id)
      WHERE external_id IS NOT NULL`
  ),
  // Lists of clients and import previews use these two. Their conditions hold for what has such a value only, so no other look-up
  // uses them.
  statement(
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS clients_by_email_and_age
      ON clients (project_id, lower(email COLLATE "C"), created_at DESC, id DESC)
      WHERE lower(email COLLATE "C") IS NOT NULL`
  ),
  statement((sql) => sql`DROP INDEX CONCURRENTLY IF EXISTS clients_by_email`),
  statement(
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS clients_by_phone_and_age
      ON clients (project_id, phone, created_at DESC, id DESC) WHERE phone IS NOT NULL`
  ),
  statement((sql) => sql`DROP INDEX CONCURRENTLY IF EXISTS clients_by_phone`),
  statement(
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS clients_by_change ON clients (project_id, status, updated_at, id)
      WHERE updated_at > '-infinity'`
  ),
  statement(
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS deals_by_client
      ON deals (project_id, client_id, lifecycle, status, created_at DESC, id DESC) WHERE client_id IS NOT NULL`
  ),
  statement(
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS deals_by_stage
      ON deals (project_id, stage_id, lifecycle, status, created_at DESC, id DESC) WHERE created_at > '-infinity'`
  ),
  statement(
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS deals_by_change ON deals (project_id, lifecycle, status, updated_at, id)
      WHERE updated_at > '-infinity'`
  ),
  statement(
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS deals_by_client_and_change
      ON deals (project_id, client_id, lifecycle, status, updated_at, id)
      WHERE updated_at > '-infinity' AND client_id IS NOT NULL`
  ),
  statement(
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS deals_by_stage_and_change
      ON deals (project_id, stage_id, lifecycle, status, updated_at, id) WHERE updated_at > '-infinity'`
  )
]
