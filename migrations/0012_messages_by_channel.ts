/** Replaces the index of the queue of messages by one in which each channel has a queue, so that none waits behind another. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default [
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS messages_by_channel
      ON messages (project_id, channel_id, attempting, available_at, id) WHERE available_at IS NOT NULL`
  ),
  Effect.flatMap(SqlClient.SqlClient, (sql) => sql`DROP INDEX CONCURRENTLY IF EXISTS messages_due`)
]
