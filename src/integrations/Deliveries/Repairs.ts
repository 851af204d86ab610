/** Puts right what no worker will: leases that ran out, and what waits for a webhook that is disabled. */
import type { SqlClient } from "effect/sql"
import type { Claim } from "./Claims.ts"

/** Returns what was leased to a worker that died, or is too slow, to the queue. */
export const reclaim = (sql: SqlClient.SqlClient, now: Date, leaseMillis: number) => sql<{ readonly id: string }>`
  WITH gate AS MATERIALIZED (
    SELECT project_id, installation_id, in_flight FROM endpoint_health
    WHERE in_flight > 0
    ORDER BY project_id, installation_id
    FOR NO KEY UPDATE SKIP LOCKED
  ),
  lost AS MATERIALIZED (
    SELECT delivery.row FROM gate, LATERAL (
      -- Those that are under way were due before those that wait: however long the queue is, none of them is read.
      SELECT ctid AS row, leased_until FROM deliveries
      WHERE project_id = gate.project_id AND installation_id = gate.installation_id
        AND finished_at IS NULL AND status = 'delivering' AND available_at <= ${now}::timestamptz
      ORDER BY available_at, id
      LIMIT gate.in_flight
    ) delivery
    WHERE leased_until <= ${now}::timestamptz
  ),
  returned AS (
    UPDATE deliveries SET status = 'pending', available_at = ${now}::timestamptz, leased_until = NULL,
      attempt_log = attempt_log || jsonb_build_object(
        'number', attempts, 'startedAt',
        to_char((leased_until - ${leaseMillis}::float8 * interval '1 millisecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
        'finishedAt', ${now.toISOString()}::text, 'statusCode', NULL, 'errorCode', 'lease_lost', 'durationMs', NULL
      )
    FROM lost
    WHERE deliveries.ctid = lost.row AND deliveries.status = 'delivering' AND leased_until <= ${now}::timestamptz
    RETURNING deliveries.project_id, deliveries.installation_id, deliveries.id
  ),
  counted AS (
    UPDATE endpoint_health health SET in_flight = health.in_flight - freed.count
    FROM (SELECT project_id, installation_id, count(*)::int FROM returned GROUP BY project_id, installation_id) freed
    WHERE health.project_id = freed.project_id AND health.installation_id = freed.installation_id
  )
  SELECT id FROM returned`

/** Keeps what is still being delivered leased. */
export const extend = (
  sql: SqlClient.SqlClient,
  claims: ReadonlyArray<Pick<Claim, "projectId" | "id" | "attempt">>,
  leaseEnd: Date
) => sql`
  UPDATE deliveries SET leased_until = ${leaseEnd}::timestamptz
  FROM jsonb_to_recordset(${JSON.stringify(claims.map(({ attempt, id, projectId }) => ({ attempt, id, projectId })))}::jsonb)
    AS lease ("projectId" text, id text, attempt int)
  WHERE deliveries.project_id = lease."projectId" AND deliveries.id = lease.id
    AND deliveries.status = 'delivering' AND deliveries.attempts = lease.attempt`

/**
 * Disables a webhook whose endpoint is gone for good, unless it was configured to go elsewhere meanwhile, and gives up
 * what waits for it.
 */
export const disable = (sql: SqlClient.SqlClient, { endpointUrl, installationId, projectId }: Claim, now: Date) => sql`
  WITH disabled AS (
    UPDATE webhooks SET enabled = false, version = version + 1
    WHERE project_id = ${projectId} AND installation_id = ${installationId}
      AND enabled AND endpoint_url = ${endpointUrl}
    RETURNING project_id, installation_id
  )
  UPDATE deliveries SET status = 'dead', available_at = NULL, finished_at = ${now}::timestamptz
  FROM disabled
  WHERE deliveries.project_id = disabled.project_id AND deliveries.installation_id = disabled.installation_id
    AND deliveries.finished_at IS NULL AND deliveries.status = 'pending'`

/** Gives up what came to wait for a webhook while it was being disabled. */
export const giveUp = (sql: SqlClient.SqlClient, now: Date) => sql<{ readonly id: string }>`
  WITH waiting AS MATERIALIZED (
    SELECT delivery.row FROM webhooks, LATERAL (
      SELECT ctid AS row FROM deliveries
      WHERE project_id = webhooks.project_id AND installation_id = webhooks.installation_id
        AND finished_at IS NULL AND status = 'pending'
    ) delivery
    WHERE NOT webhooks.enabled
  )
  UPDATE deliveries SET status = 'dead', available_at = NULL, finished_at = ${now}::timestamptz
  FROM waiting
  WHERE deliveries.ctid = waiting.row AND deliveries.status = 'pending'
  RETURNING deliveries.id`

/** How long finished deliveries are kept, with the log of their attempts. */
export const retentionDays = 30

/** Removes a batch of what finished long ago; true while there may be more. */
export const prune = (sql: SqlClient.SqlClient, horizon: Date, batch: number) => sql<{ readonly more: boolean }>`
  WITH old AS (
    SELECT expired.* FROM projects, LATERAL (
      SELECT project_id, id FROM deliveries
      WHERE project_id = projects.project_id AND finished_at < ${horizon}::timestamptz
      ORDER BY finished_at LIMIT ${batch}::int FOR UPDATE SKIP LOCKED
    ) expired LIMIT ${batch}::int
  ),
  deliveries_gone AS (
    DELETE FROM deliveries USING old WHERE deliveries.project_id = old.project_id AND deliveries.id = old.id RETURNING 1
  ),
  untold AS (
    SELECT orphan.* FROM projects, LATERAL (
      SELECT project_id, id FROM events
      WHERE project_id = projects.project_id AND occurred_at < ${horizon}::timestamptz
        AND NOT EXISTS (
          SELECT FROM deliveries WHERE deliveries.project_id = events.project_id AND deliveries.event_id = events.id
        )
      ORDER BY occurred_at LIMIT ${batch}::int FOR UPDATE SKIP LOCKED
    ) orphan LIMIT ${batch}::int
  ),
  events_gone AS (
    DELETE FROM events USING untold WHERE events.project_id = untold.project_id AND events.id = untold.id RETURNING 1
  )
  SELECT (SELECT count(*) FROM deliveries_gone) = ${batch}::int OR (SELECT count(*) FROM events_gone) = ${batch}::int AS more`
