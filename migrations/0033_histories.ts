/**
 * Adds to a command the request, the trace, the API key and the operation that it comes from, and the indexes by which operators find
 * the commands of a request, a trace and a record, newest first. All are null in commands of the versions before. Many requests may
 * have one id, as callers choose it.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

const statement = (text: (sql: SqlClient.SqlClient) => Effect.Effect<unknown, unknown>) =>
  Effect.flatMap(SqlClient.SqlClient, text)

export default [
  statement(
    (sql) => sql`
      ALTER TABLE idempotency_keys
        ADD COLUMN IF NOT EXISTS request_id text COLLATE "C", ADD COLUMN IF NOT EXISTS trace_id text COLLATE "C",
        ADD COLUMN IF NOT EXISTS key_id text COLLATE "C", ADD COLUMN IF NOT EXISTS operation text`
  ),
  // The ids that the service makes begin with their time, so that new entries of these indexes follow each other.
  statement(
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS idempotency_keys_by_request
      ON idempotency_keys (project_id, request_id, created_at) WHERE request_id IS NOT NULL`
  ),
  statement(
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS idempotency_keys_by_trace
      ON idempotency_keys (project_id, trace_id, created_at) WHERE trace_id IS NOT NULL`
  ),
  statement(
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS idempotency_keys_by_record
      ON idempotency_keys (project_id, resource_id, created_at) WHERE operation IS NOT NULL`
  ),
  statement(
    (sql) =>
      sql`CREATE INDEX CONCURRENTLY IF NOT EXISTS audit_entries_by_target ON audit_entries (project_id, target, id)`
  )
]
