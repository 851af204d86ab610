/**
 * Replaces the index of messages by age by one that only lists use (see 0002_crm). With the former, a look-up by id that was planned while
 * the table was empty read all messages of a project, until the table was analyzed.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default [
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS messages_listed ON messages (project_id, created_at DESC, id DESC)
      WHERE created_at > '-infinity'`
  ),
  Effect.flatMap(SqlClient.SqlClient, (sql) => sql`DROP INDEX CONCURRENTLY IF EXISTS messages_by_age`)
]
