/**
 * Adds the indexes by which an erasure finds the records of a client. None has entries for what is written most: messages of campaigns,
 * and events of deals and tasks.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

const statement = (text: (sql: SqlClient.SqlClient) => Effect.Effect<unknown, unknown>) =>
  Effect.flatMap(SqlClient.SqlClient, text)

export default [
  statement(
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS tasks_by_client ON tasks (project_id, client_id, id)
      WHERE client_id IS NOT NULL`
  ),
  // The condition always holds. It keeps the index from look-ups by segment, for which PostgreSQL 18 could skip the client.
  statement(
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS segment_clients_by_client ON segment_clients (project_id, client_id, segment_id)
      WHERE client_id IS NOT NULL`
  ),
  statement(
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS messages_by_conversation ON messages (project_id, conversation_id, id)
      WHERE conversation_id IS NOT NULL AND address <> ''`
  ),
  statement(
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS events_of_clients
      ON events (project_id, ((data -> 'client' ->> 'id') COLLATE "C"), id)
      WHERE type IN ('crm.client.created.v1', 'crm.client.updated.v1')`
  )
]
