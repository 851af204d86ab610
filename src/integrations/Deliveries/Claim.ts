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
import type { DeliveryId, EventId, InstallationId, ProjectId } from "../../api/Ids.ts"
import type { EventType } from "../../api/integrations/Events.ts"
import { signingSecretsMax } from "../Webhooks/Secrets.ts"

export interface Endpoint {
  readonly projectId: ProjectId
  readonly installationId: InstallationId
}

/** A leased delivery, to be attempted now. */
export interface Claim extends Endpoint {
  readonly id: DeliveryId
  /** The `webhook-id`: of a replay, the id of the delivery that it repeats. */
  readonly webhookId: DeliveryId
  /** Number of the attempt. */
  readonly attempt: number
  /** End of the lease. With `attempt` the fence: no other lease of the delivery has both. */
  readonly leasedUntil: string
  /** Delays of the retry schedule that are used up. */
  readonly retries: number
  /** Whether the endpoint is suspect: its attempts use the slots of such endpoints. */
  readonly suspect: boolean
  /** Whether more was due for the endpoint than might be claimed. */
  readonly more: boolean
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

export interface Terms {
  readonly workerId: bigint
  readonly leaseMillis: number
  /** Maximum number of deliveries in flight to one endpoint. */
  readonly concurrency: number
  /** Maximum number of claims, for endpoints in good health and for suspect ones. */
  readonly slots: { readonly healthy: number; readonly suspect: number }
  /** Endpoints to visit whether they are known to be due or not. */
  readonly named: ReadonlyArray<Named>
}

/** An endpoint, and the maximum number of its deliveries leased to this worker: its concurrency, or what is claimed ahead. */
export interface Named extends Endpoint {
  readonly width: number
}

/** Maximum number of deliveries that one statement claims ahead. */
const aheadPerStatement = 1_000

/**
 * Claims for up to `slots` endpoints that are due and for those named. A row of `endpoint_health` that another statement
 * has locked is skipped: a claim of another worker takes what is due there, and the sweep is behind all others.
 *
 * - `turn`: the endpoints, locked, and how many deliveries each may get.
 * - `pending`: the first pending deliveries of each, in the order of `deliveries_open`, and one more that tells when the
 *   endpoint is due next. Scarce slots are shared evenly: first the first of each, then the second of each. What is
 *   claimed ahead, beyond the endpoint's concurrency, uses no slot; nothing is while slots are scarce.
 * - `leased`: the chosen ones. The lock of the endpoint excludes other claims, so no row lock precedes the update by `ctid`.
 * - `settled`: an endpoint with due deliveries left is due `now()`, behind all that have waited: endpoints take turns.
 */
export const claim = (
  sql: SqlClient.SqlClient,
  { concurrency, leaseMillis, named, slots, workerId }: Terms
) => sql<Claim>`
  WITH turn AS MATERIALIZED (
    SELECT health.project_id, health.installation_id, suspect, in_flight, webhook.*, CASE
        WHEN NOT enabled OR parked_until > now() OR resting_until > now() THEN 0
        WHEN suspect THEN greatest(0, 1 - in_flight)
        ELSE greatest(0, width - in_flight)
      END AS quota
    FROM (${candidates(sql, { concurrency, named, slots, workerId })}) candidate
      JOIN endpoint_health health USING (project_id, installation_id), LATERAL (
        SELECT enabled, endpoint_url, ${validSecrets(sql)} AS secrets FROM webhooks
        WHERE project_id = health.project_id AND installation_id = health.installation_id LIMIT 1
      ) webhook
    WHERE coalesce(worker_id = ${workerId}::bigint, true)
    FOR NO KEY UPDATE OF health SKIP LOCKED
  ),
  pending AS MATERIALIZED (
    SELECT due.*, place <= quota AND available_at <= now() AND row_number() OVER (
        PARTITION BY suspect, pool ORDER BY place > quota OR available_at > now(), place, available_at
      ) <= CASE
        WHEN suspect THEN ${slots.suspect}::int
        WHEN pool = 'slots' THEN ${slots.healthy}::int
        WHEN count(*) FILTER (WHERE pool = 'slots') OVER () <= ${slots.healthy}::int THEN ${aheadPerStatement}::int
        ELSE 0
      END AS chosen
    FROM (
      SELECT turn.*, delivery.*, CASE WHEN in_flight + place <= ${concurrency}::int THEN 'slots' ELSE 'ahead' END AS pool,
        count(*) FILTER (WHERE available_at <= now()) OVER (PARTITION BY project_id, installation_id) > quota AS more
      FROM turn, LATERAL (
        SELECT ctid AS row, available_at, row_number() OVER (ORDER BY available_at, id) AS place FROM deliveries
        WHERE project_id = turn.project_id AND installation_id = turn.installation_id
          AND finished_at IS NULL AND status = 'pending'
        ORDER BY available_at, id LIMIT quota + 1
      ) delivery
    ) due
  ),
  leased AS (
    UPDATE deliveries SET status = 'delivering', attempts = attempts + 1,
      leased_until = now() + ${leaseMillis}::float8 * interval '1 millisecond'
    FROM pending WHERE chosen AND deliveries.ctid = pending.row AND deliveries.status = 'pending'
    RETURNING deliveries.project_id, deliveries.installation_id, deliveries.id,
      coalesce(replay_of, deliveries.id) AS webhook_id, attempts, leased_until, retries, event_id,
      suspect, more, endpoint_url, secrets
  ),
  settled AS (
    UPDATE endpoint_health health SET
      in_flight = health.in_flight + leases,
      worker_id = CASE WHEN health.in_flight + leases > 0 THEN ${workerId}::bigint END,
      next_due_at = CASE WHEN enabled AND next_at IS NOT NULL THEN greatest(next_at, now()) END,
      discarding = health.discarding OR (NOT enabled AND next_at IS NOT NULL),
      saturated = health.in_flight + leases >= CASE WHEN health.suspect THEN 1 ELSE ${concurrency}::int END
    FROM (
      SELECT project_id, installation_id, bool_and(enabled) AS enabled, sum(lease)::int AS leases, min(next_at) AS next_at
      FROM (
        SELECT project_id, installation_id, enabled, 0 AS lease, NULL::timestamptz AS next_at FROM turn
        UNION ALL SELECT project_id, installation_id, true, 1, NULL FROM leased
        UNION ALL SELECT project_id, installation_id, true, 0, available_at FROM pending WHERE NOT chosen
      ) change GROUP BY project_id, installation_id
    ) change
    WHERE health.project_id = change.project_id AND health.installation_id = change.installation_id
  )
  SELECT project_id AS "projectId", installation_id AS "installationId", id, webhook_id AS "webhookId", attempts AS attempt,
    leased_until::text AS "leasedUntil", retries, suspect, more, endpoint_url AS "endpointUrl", secrets, event_id AS "eventId",
    event.*
  FROM leased, LATERAL (
    SELECT type, data::text AS data, occurred_at AS "occurredAt", traceparent FROM events
    WHERE project_id = leased.project_id AND id = leased.event_id LIMIT 1
  ) event`

/** The endpoints to visit, each once, with the number that may be leased of it. */
const candidates = (
  sql: SqlClient.SqlClient,
  { concurrency, named, slots, workerId }: Omit<Terms, "leaseMillis">
) => sql`
  SELECT project_id, installation_id, max(width) AS width FROM (
    SELECT * FROM unnest(
      ${named.map(({ projectId }) => projectId)}::text[], ${named.map(({ installationId }) => installationId)}::text[],
      ${named.map(({ width }) => width)}::int[]
    ) AS named (project_id, installation_id, width)
    UNION ALL (
      SELECT project_id, installation_id, ${concurrency}::int FROM endpoint_health
      WHERE claim_at <= now() AND NOT suspect AND coalesce(worker_id = ${workerId}::bigint, true)
      ORDER BY claim_at LIMIT ${slots.healthy}::int
    )
    UNION ALL (
      SELECT project_id, installation_id, 1 FROM endpoint_health
      WHERE claim_at <= now() AND suspect AND coalesce(worker_id = ${workerId}::bigint, true)
      ORDER BY claim_at LIMIT ${slots.suspect}::int
    )
  ) AS found GROUP BY project_id, installation_id`

/** The secrets of the row of `webhooks` that sign a delivery now. */
export const validSecrets = (sql: SqlClient.SqlClient) => sql`(
  SELECT string_agg(encode(sealed, 'base64'), ' ' ORDER BY version DESC) FROM (
    SELECT sealed, version FROM webhook_secrets secret
    WHERE secret.project_id = webhooks.project_id AND secret.installation_id = webhooks.installation_id
      AND retires_at > now()
    ORDER BY version DESC LIMIT ${signingSecretsMax}::int
  ) valid
)`
