/** Returns deliveries of dead workers to the queue. */
import type { SqlClient, Statement } from "effect/sql"
import type { Worker } from "../../platform/background/Worker.ts"
import type { Endpoint } from "./Claim/Endpoints.ts"

/** Maximum number of endpoints that one statement changes. */
const endpointsPerStatement = 5_000

/**
 * Returns deliveries whose worker is dead or whose lease has expired, with an entry in their attempt log. The fence
 * changes, so a later result of the former worker is not recorded. Reads all leased endpoints, and locks only the
 * endpoints that have such a delivery.
 */
export const reclaim = (sql: SqlClient.SqlClient, worker: Worker["Service"], leaseMillis: number) => sql<Endpoint>`
  WITH gate AS MATERIALIZED (
    SELECT project_id, installation_id, in_flight, ${worker.isDead(sql, sql`worker_id`)} AS dead FROM endpoint_health health
    WHERE worker_id IS NOT NULL AND (
      ${worker.isDead(sql, sql`worker_id`)} OR EXISTS (
        SELECT FROM (${inFlight(sql, sql.literal("health"))}) delivery WHERE leased_until <= now()
      )
    )
    ORDER BY project_id, installation_id LIMIT ${endpointsPerStatement}::int
    FOR NO KEY UPDATE SKIP LOCKED
  ),
  lost AS MATERIALIZED (
    SELECT delivery.row, dead FROM gate, LATERAL (${inFlight(sql, sql.literal("gate"))}) delivery
    WHERE dead OR leased_until <= now()
  ),
  returned AS (
    UPDATE deliveries SET status = 'pending', available_at = now(), leased_until = NULL,
      attempt_log = attempt_log || jsonb_build_object(
        'number', attempts, 'startedAt', to_char(
          (leased_until - ${leaseMillis}::float8 * interval '1 millisecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'
        ),
        'finishedAt', to_char(now()::timestamptz(3) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
        'statusCode', NULL, 'errorCode', 'lease_lost', 'durationMs', NULL
      )
    FROM lost
    WHERE deliveries.ctid = lost.row AND deliveries.status = 'delivering' AND (dead OR leased_until <= now())
    RETURNING deliveries.project_id, deliveries.installation_id
  )
  UPDATE endpoint_health health SET
    in_flight = CASE WHEN freed.dead THEN 0 ELSE health.in_flight - freed.leases END,
    worker_id = CASE WHEN NOT freed.dead AND health.in_flight > freed.leases THEN worker_id END,
    saturated = false, next_due_at = least(next_due_at, now())
  FROM (
    SELECT project_id, installation_id, bool_or(dead) AS dead, sum(lease)::int AS leases FROM (
      SELECT project_id, installation_id, true AS dead, 0 AS lease FROM gate WHERE dead
      UNION ALL SELECT project_id, installation_id, false, 1 FROM returned
    ) change GROUP BY project_id, installation_id
  ) freed
  WHERE health.project_id = freed.project_id AND health.installation_id = freed.installation_id
  RETURNING health.project_id AS "projectId", health.installation_id AS "installationId"`

/** The deliveries in flight to an endpoint. They were due before those that are pending, so only they are read. */
const inFlight = (sql: SqlClient.SqlClient, endpoint: Statement.Fragment) => sql`
  SELECT ctid AS row, leased_until FROM deliveries
  WHERE project_id = ${endpoint}.project_id AND installation_id = ${endpoint}.installation_id
    AND finished_at IS NULL AND status = 'delivering'
  ORDER BY available_at, id LIMIT ${endpoint}.in_flight`
