/** Dead-letters deliveries that will not be attempted again, in batches that fit the timeout of a statement. */
import { isAwake } from "../../../platform/Moves.ts"
import type { SqlClient } from "effect/sql"
import { literalsOf } from "../States.ts"

export const deadLetterBatch = 1_000

export interface Batch {
  readonly count: number
  readonly more: boolean
}

/**
 * Dead-letters a batch of pending deliveries of disabled webhooks. The mark `discarding` stays on an endpoint until its last
 * pending delivery is dead, so the work continues after a crash. If a delivery is committed later, or was locked, `sweep` (`Recovery.ts`)
 * marks the endpoint again.
 */
export const discard = (sql: SqlClient.SqlClient) => {
  const { from, to } = literalsOf(sql, "disabled")
  return sql<Batch>`
  WITH endpoint AS MATERIALIZED (
    SELECT project_id, installation_id, enabled, open_from FROM endpoint_health health JOIN webhooks USING (project_id, installation_id)
    WHERE discarding AND ${isAwake(sql, "project_id")}
    ORDER BY project_id, installation_id LIMIT 100
    FOR NO KEY UPDATE OF health SKIP LOCKED
  ),
  waiting AS MATERIALIZED (
    SELECT delivery.*, endpoint.project_id, endpoint.installation_id FROM endpoint, LATERAL (
      SELECT ctid AS row FROM deliveries
      WHERE project_id = endpoint.project_id AND installation_id = endpoint.installation_id
        AND finished_at IS NULL AND available_at >= open_from AND status = ${from}
      ORDER BY available_at, id LIMIT ${deadLetterBatch}::int
      FOR NO KEY UPDATE SKIP LOCKED
    ) delivery
    WHERE NOT enabled LIMIT ${deadLetterBatch}::int
  ),
  ended AS (
    UPDATE deliveries SET status = ${to}, available_at = NULL, finished_at = now(), dead_code = 'disabled'
    FROM waiting WHERE deliveries.ctid = waiting.row AND deliveries.status = ${from}
    RETURNING 1
  ),
  emptied AS (
    UPDATE endpoint_health health SET discarding = false FROM endpoint
    WHERE health.project_id = endpoint.project_id AND health.installation_id = endpoint.installation_id
      AND (SELECT count(*) FROM waiting) < ${deadLetterBatch}::int
    RETURNING 1
  )
  SELECT (SELECT count(*)::int FROM ended) AS count,
    (SELECT count(*) FROM waiting) = ${deadLetterBatch}::int OR (SELECT count(*) FROM emptied) = 100 AS more`
}

/**
 * Dead-letters a batch of pending deliveries that are older than `maxAgeMillis`. The age counts from the last retry command or,
 * without one, from the creation. The error code is `expired`. Deliveries in flight are left out, because their attempt may
 * succeed. `created_at > '-infinity'` is always true. It repeats the condition of the index `deliveries_by_age_of_open`, so that
 * PostgreSQL uses the index.
 */
export const expire = (sql: SqlClient.SqlClient, maxAgeMillis: number) => {
  const { from, to } = literalsOf(sql, "expired")
  return sql<Batch>`
  WITH old AS MATERIALIZED (
    SELECT expired.row FROM projects, LATERAL (
      SELECT ctid AS row FROM deliveries
      WHERE project_id = projects.project_id AND ${isAwake(sql, "project_id")} AND finished_at IS NULL AND created_at > '-infinity' AND status = ${from}
        AND greatest(created_at, retried_at) < now() - ${maxAgeMillis}::float8 * interval '1 millisecond'
      ORDER BY greatest(created_at, retried_at) LIMIT ${deadLetterBatch}::int
      FOR NO KEY UPDATE SKIP LOCKED
    ) expired LIMIT ${deadLetterBatch}::int
  ),
  ended AS (
    UPDATE deliveries SET status = ${to}, available_at = NULL, finished_at = now(), dead_code = 'expired'
    FROM old WHERE deliveries.ctid = old.row
    RETURNING 1
  )
  SELECT count(*)::int AS count, count(*) = ${deadLetterBatch}::int AS more FROM ended`
}
