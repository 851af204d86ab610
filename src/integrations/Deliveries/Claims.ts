/**
 * Claims due deliveries for a while. Fair: endpoints take turns, whatever the length of their queues, and none has more
 * in flight than its share, over all replicas. The row of `endpoint_health` is the gate: whoever claims for an endpoint
 * holds it, others pass on, and what it counts is changed by the very statements that move deliveries.
 */
import type { SqlClient, Statement } from "effect/sql"
import type { DeliveryId, EventId, InstallationId, ProjectId } from "../../api/Ids.ts"
import type { EventType } from "../../api/integrations/Events.ts"

/** A delivery to be attempted now. */
export interface Claim {
  readonly projectId: ProjectId
  readonly installationId: InstallationId
  readonly id: DeliveryId
  /** The number of the attempt, and the fence of its lease. */
  readonly attempt: number
  /** Retries that the schedule has used up. */
  readonly retries: number
  readonly endpointUrl: string
  /** Sealed, the one in force first; each in base64, separated by spaces. */
  readonly secrets: string
  readonly eventId: EventId
  readonly type: EventType
  /** JSON, as it is sent. */
  readonly data: string
  readonly occurredAt: Date
  readonly traceparent: string
}

export interface Terms {
  readonly now: Date
  readonly leaseEnd: Date
  /** Claims at most. */
  readonly slots: number
  /** In flight at most to one endpoint. */
  readonly endpointConcurrency: number
  /** The process that claims. */
  readonly holder: string
}

/** Whether more may be claimed for an endpoint now, and `limit` be claimed in all; of the columns of its health. */
export const isFree = (sql: SqlClient.SqlClient, { now }: Terms, limit: Statement.Fragment): Statement.Fragment => sql`
  (resting_until IS NULL OR resting_until <= ${now}::timestamptz)
  AND CASE WHEN parked_until IS NULL THEN in_flight < ${limit} ELSE parked_until <= ${now}::timestamptz AND in_flight = 0 END`

/** Who has all that is in flight to an endpoint, after another claim; nobody where several have some. */
export const holderOf = (sql: SqlClient.SqlClient, { holder }: Terms, of: string): Statement.Fragment => sql`
  CASE WHEN ${sql(of)}.in_flight = 0 OR ${sql(of)}.holder = ${holder} THEN ${holder} END`

/** How many more, and what they need to know of their endpoint; of the columns of its health and webhook. */
export const turnOf = (sql: SqlClient.SqlClient, { now }: Terms, limit: Statement.Fragment): Statement.Fragment => sql`
  CASE WHEN parked_until IS NULL THEN ${limit} - in_flight ELSE 1 END AS quota,
  endpoint_url,
  (
    SELECT string_agg(encode(sealed, 'base64'), ' ' ORDER BY version DESC) FROM webhook_secrets secret
    WHERE secret.project_id = webhooks.project_id AND secret.installation_id = webhooks.installation_id
      AND retires_at > ${now}::timestamptz
  ) AS secrets`

/**
 * Common table expressions that claim for each endpoint of `turn` what is due longest. Whoever claims holds the endpoint's
 * gate, so nobody else claims the same: the rows themselves need no lock before they are written.
 *
 * The planner can't know how many rows pass from one expression to the next, nor how long the queue will be: so each row
 * is found by itself (LATERAL, `ctid`), and takes along what is known of its endpoint. A join might compare all with all.
 */
export const take = (sql: SqlClient.SqlClient, { leaseEnd, now, slots }: Terms): Statement.Fragment => sql`
  due AS (
    SELECT delivery.*, endpoint_url, secrets,
      row_number() OVER (PARTITION BY turn.project_id, turn.installation_id ORDER BY available_at, id) AS rank
    FROM turn, LATERAL (
      SELECT ctid AS row, id, available_at FROM deliveries
      WHERE project_id = turn.project_id AND installation_id = turn.installation_id AND finished_at IS NULL
        AND status = 'pending' AND available_at <= ${now}::timestamptz
      ORDER BY available_at, id
      LIMIT turn.quota
    ) delivery
  ),
  chosen AS (SELECT * FROM due ORDER BY rank, available_at LIMIT ${slots}::int),
  claimed AS (
    UPDATE deliveries SET status = 'delivering', attempts = attempts + 1, leased_until = ${leaseEnd}::timestamptz
    FROM chosen
    WHERE deliveries.ctid = chosen.row AND deliveries.status = 'pending'
    RETURNING deliveries.project_id, installation_id, deliveries.id, attempts, retries, event_id, endpoint_url, secrets
  )`

/** What `take` has claimed. */
export const claimed = (sql: SqlClient.SqlClient): Statement.Fragment => sql`
  SELECT project_id AS "projectId", installation_id AS "installationId", id, attempts AS attempt, retries,
    endpoint_url AS "endpointUrl", secrets, event_id AS "eventId", event.*
  FROM claimed, LATERAL (
    SELECT type, data::text AS data, occurred_at AS "occurredAt", traceparent FROM events
    WHERE project_id = claimed.project_id AND id = claimed.event_id LIMIT 1
  ) event`

/**
 * Claims for all endpoints. The queue has an entry for each with open deliveries, found by jumping from one to the next in
 * the index: the hundred thousand deliveries of a parked endpoint cost one jump.
 */
export const claim = (sql: SqlClient.SqlClient, terms: Terms) => {
  const limit = sql`${terms.endpointConcurrency}::int`
  return sql<Claim>`
  WITH RECURSIVE queue AS (
    (
      SELECT project_id, installation_id, available_at FROM deliveries
      WHERE finished_at IS NULL
      ORDER BY project_id, installation_id, available_at LIMIT 1
    )
    UNION ALL
    SELECT next.* FROM queue, LATERAL (
      SELECT project_id, installation_id, available_at FROM deliveries
      WHERE finished_at IS NULL AND (project_id, installation_id) > (queue.project_id, queue.installation_id)
      ORDER BY project_id, installation_id, available_at LIMIT 1
    ) next
  ),
  turn AS MATERIALIZED (
    SELECT health.project_id, health.installation_id, ${turnOf(sql, terms, limit)}
    FROM queue
      JOIN webhooks USING (project_id, installation_id)
      JOIN endpoint_health health USING (project_id, installation_id)
    WHERE queue.available_at <= ${terms.now}::timestamptz AND webhooks.enabled AND ${isFree(sql, terms, limit)}
    ORDER BY served_at
    LIMIT ${terms.slots}::int
    FOR NO KEY UPDATE OF health SKIP LOCKED
  ),
  ${take(sql, terms)},
  counted AS (
    UPDATE endpoint_health health SET
      in_flight = health.in_flight + taken.count, holder = ${holderOf(sql, terms, "health")}, served_at = ${terms.now}::timestamptz
    FROM (SELECT project_id, installation_id, count(*)::int FROM claimed GROUP BY project_id, installation_id) taken
    WHERE health.project_id = taken.project_id AND health.installation_id = taken.installation_id
  )
  ${claimed(sql)}`
}
