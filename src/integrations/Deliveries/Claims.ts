/**
 * Claims due deliveries for a while. Fair: endpoints take turns, whatever the length of their queues, and none has more
 * in flight than its share, over all replicas. The row of `endpoint_health` is the gate: whoever claims for an endpoint
 * holds it, others pass on, and what it counts is changed by the very statements that move deliveries.
 */
import type { SqlClient } from "effect/sql"
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
  /** Sealed, the one in force first. */
  readonly secrets: ReadonlyArray<Uint8Array>
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
}

/**
 * The queue has an entry for each endpoint with open deliveries, found by jumping from one to the next in the index: the
 * hundred thousand deliveries of a parked endpoint cost one jump.
 */
export const claim = (sql: SqlClient.SqlClient, { endpointConcurrency, leaseEnd, now, slots }: Terms) => sql<Claim>`
  WITH RECURSIVE queue AS (
    (
      SELECT project_id, installation_id, available_at FROM deliveries
      WHERE status IN ('pending', 'delivering')
      ORDER BY project_id, installation_id, available_at LIMIT 1
    )
    UNION ALL
    SELECT next.* FROM queue, LATERAL (
      SELECT project_id, installation_id, available_at FROM deliveries
      WHERE status IN ('pending', 'delivering')
        AND (project_id, installation_id) > (queue.project_id, queue.installation_id)
      ORDER BY project_id, installation_id, available_at LIMIT 1
    ) next
  ),
  turn AS MATERIALIZED (
    SELECT health.project_id, health.installation_id,
      CASE WHEN parked_until IS NULL THEN ${endpointConcurrency}::int - in_flight ELSE 1 END AS quota
    FROM queue
      JOIN webhooks USING (project_id, installation_id)
      JOIN endpoint_health health USING (project_id, installation_id)
    WHERE queue.available_at <= ${now}::timestamptz AND webhooks.enabled
      AND (resting_until IS NULL OR resting_until <= ${now}::timestamptz)
      AND CASE
        WHEN parked_until IS NULL THEN in_flight < ${endpointConcurrency}::int
        ELSE parked_until <= ${now}::timestamptz AND in_flight = 0
      END
    ORDER BY served_at
    LIMIT ${slots}::int
    FOR NO KEY UPDATE OF health SKIP LOCKED
  ),
  due AS MATERIALIZED (
    SELECT delivery.*, row_number() OVER (PARTITION BY turn.project_id, turn.installation_id ORDER BY available_at, id) AS rank
    FROM turn, LATERAL (
      SELECT project_id, installation_id, id, available_at FROM deliveries
      WHERE project_id = turn.project_id AND installation_id = turn.installation_id
        AND status = 'pending' AND available_at <= ${now}::timestamptz
      ORDER BY available_at, id
      LIMIT turn.quota
      FOR NO KEY UPDATE SKIP LOCKED
    ) delivery
  ),
  chosen AS (SELECT project_id, id FROM due ORDER BY rank, available_at LIMIT ${slots}::int),
  claimed AS (
    UPDATE deliveries SET status = 'delivering', attempts = attempts + 1, available_at = ${leaseEnd}::timestamptz
    FROM chosen
    WHERE deliveries.project_id = chosen.project_id AND deliveries.id = chosen.id
    RETURNING deliveries.*
  ),
  counted AS (
    UPDATE endpoint_health health SET in_flight = health.in_flight + taken.count, served_at = ${now}::timestamptz
    FROM (SELECT project_id, installation_id, count(*)::int FROM claimed GROUP BY project_id, installation_id) taken
    WHERE health.project_id = taken.project_id AND health.installation_id = taken.installation_id
  )
  SELECT claimed.project_id AS "projectId", claimed.installation_id AS "installationId", claimed.id,
    claimed.attempts AS attempt, claimed.retries, webhooks.endpoint_url AS "endpointUrl",
    ARRAY(
      SELECT sealed FROM webhook_secrets secret
      WHERE secret.project_id = claimed.project_id AND secret.installation_id = claimed.installation_id
        AND retires_at > ${now}::timestamptz
      ORDER BY version DESC
    ) AS secrets,
    events.id AS "eventId", events.type, events.data::text AS data, events.occurred_at AS "occurredAt", events.traceparent
  FROM claimed
    JOIN webhooks USING (project_id, installation_id)
    JOIN events ON events.project_id = claimed.project_id AND events.id = claimed.event_id`
