/**
 * Claims due deliveries, found by endpoint.
 *
 * `endpoint_health` has one row for each endpoint. `claim_at` (indexed) is the earliest time at which a claim finds
 * something there; it is null while nothing is pending or as much is in flight as may be. A claim visits the endpoints whose
 * `claim_at` has passed, the longest due first, and those that it is given by name. Its cost depends on what it visits:
 * parked and idle endpoints are not read.
 *
 * Everything in flight to an endpoint is leased to one worker (`worker_id`). So no two workers count for the same endpoint,
 * and a worker may claim ahead for an endpoint whose concurrency it limits itself.
 */
import type { SqlClient } from "effect/sql"
import type { DeliveryId, EventId } from "../../api/Ids.ts"
import type { EventType } from "../../api/integrations/Events.ts"
import { type Endpoint, endpoints, quotas, settle, type Terms } from "./Claim/Endpoints.ts"

/** A leased delivery, to be attempted now. */
export interface Claim extends Endpoint {
  readonly id: DeliveryId
  /** The `webhook-id`: of a replay, the id of the delivery that it repeats. */
  readonly webhookId: DeliveryId
  /** Number of the attempt. */
  readonly attempt: number
  /** End of the lease. With `attempt` the fence: no other lease of the delivery has both. */
  readonly leasedUntil: Date
  /** Delays of the retry schedule that are used up. */
  readonly retries: number
  /** Whether the endpoint is suspect: its attempts use the slots of such endpoints. */
  readonly suspect: boolean
  readonly endpointUrl: string
  /** Sealed, in base64, the newest first, separated by spaces. */
  readonly secrets: string
  readonly eventId: EventId
  readonly type: EventType
  /** JSON, as it is sent. */
  readonly data: string
  readonly occurredAt: Date
  readonly traceparent: string
}

/**
 * Claims for up to `slots` endpoints that are due and for those named.
 *
 * - `endpoint`: the endpoints, locked.
 * - `visit`: the same, with the number of deliveries that each may get (`quota`).
 * - `pending`: the first pending deliveries of each, in the order of `deliveries_open`, and one more, by which the
 *   next due time of the endpoint is set.
 * - `leased`: the chosen ones. The lock of the endpoint excludes other claims, so no row lock precedes the update by `ctid`.
 */
export const claim = (sql: SqlClient.SqlClient, terms: Terms) => sql<Claim>`
  WITH endpoint AS MATERIALIZED (${endpoints(sql, terms)}),
  visit AS MATERIALIZED (${quotas(sql, terms.slots)}),
  pending AS MATERIALIZED (
    SELECT visit.project_id, visit.installation_id, suspect, endpoint_url, secrets, row, available_at,
      place <= quota AND available_at <= now() AS chosen
    FROM visit, LATERAL (
      SELECT ctid AS row, available_at, row_number() OVER (ORDER BY available_at, id) AS place FROM deliveries
      WHERE project_id = visit.project_id AND installation_id = visit.installation_id
        AND finished_at IS NULL AND status = 'pending'
      ORDER BY available_at, id LIMIT quota + 1
    ) delivery
  ),
  leased AS (
    UPDATE deliveries SET status = 'delivering', attempts = attempts + 1,
      leased_until = now() + ${terms.leaseMillis}::float8 * interval '1 millisecond'
    FROM pending WHERE chosen AND deliveries.ctid = pending.row AND deliveries.status = 'pending'
    RETURNING deliveries.project_id, deliveries.installation_id, deliveries.id,
      coalesce(replay_of, deliveries.id) AS webhook_id, attempts, leased_until, retries, event_id,
      suspect, endpoint_url, secrets
  ),
  settled AS (${settle(sql, terms)})
  SELECT project_id AS "projectId", installation_id AS "installationId", id, webhook_id AS "webhookId", attempts AS attempt,
    leased_until AS "leasedUntil", retries, suspect, endpoint_url AS "endpointUrl", secrets, event_id AS "eventId",
    event.*
  FROM leased, LATERAL (
    SELECT type, data::text AS data, occurred_at AS "occurredAt", traceparent FROM events
    WHERE project_id = leased.project_id AND id = leased.event_id LIMIT 1
  ) event`
