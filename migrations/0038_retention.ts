/** Adds the indexes by which replays that have ended, and abandoned audiences without messages of unknown outcome, are deleted. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

const statement = (text: (sql: SqlClient.SqlClient) => Effect.Effect<unknown, unknown>) =>
  Effect.flatMap(SqlClient.SqlClient, text)

export default [
  statement(
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS replays_ended ON replays (project_id, finished_at)
      WHERE finished_at IS NOT NULL`
  ),
  statement(
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS messages_unknown_of_audiences ON messages (project_id, audience_id)
      WHERE status = 'unknown' AND audience_id IS NOT NULL`
  )
]
