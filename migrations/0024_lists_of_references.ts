/**
 * Adds the indexes of the lists of tickets, conversations and templates. Each condition always holds for the rows of the list, and
 * keeps the planner from using the index for a look-up by id (see 0002_crm).
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

const statement = (text: (sql: SqlClient.SqlClient) => Effect.Effect<unknown, unknown>) =>
  Effect.flatMap(SqlClient.SqlClient, text)

export default [
  statement(
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS tickets_by_status ON tickets (project_id, (status COLLATE "C"), id)
      WHERE id > ''`
  ),
  statement(
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS tickets_by_client ON tickets (project_id, client_id, id)
      WHERE client_id IS NOT NULL`
  ),
  statement(
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS tickets_by_client_and_status
      ON tickets (project_id, client_id, (status COLLATE "C"), id) WHERE client_id IS NOT NULL AND id > ''`
  ),
  statement(
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS conversations_by_client ON conversations (project_id, client_id, id)
      WHERE client_id IS NOT NULL`
  ),
  statement(
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS conversations_by_channel ON conversations (project_id, channel_id, id)
      WHERE id > ''`
  ),
  statement(
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS conversations_by_client_and_channel
      ON conversations (project_id, client_id, channel_id, id) WHERE client_id IS NOT NULL AND id > ''`
  ),
  // The newest version of a template comes first.
  statement(
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS templates_newest_first ON templates (project_id, id, (-version))
      WHERE id > ''`
  )
]
