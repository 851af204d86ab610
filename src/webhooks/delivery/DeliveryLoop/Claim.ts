/**
 * Claims due deliveries, found by endpoint.
 *
 * `endpoint_health` has one row for each endpoint. `claim_at` (indexed) is the earliest time at which a claim finds a delivery
 * to lease. It is null while no delivery is pending, or while the maximum number of deliveries is in flight. A claim visits the
 * endpoints that the loop names (`terms.named`), due or not. A poll is a claim that also visits the endpoints whose `claim_at` has
 * passed. No claim visits any other endpoint, so idle endpoints and endpoints in a pause cost next to nothing.
 *
 * All deliveries in flight to an endpoint are leased to one worker (`worker_id`). So one process limits the concurrency of the
 * endpoint. It may also lease deliveries ahead, which wait in the process until an attempt to the endpoint has ended.
 */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { Endpoint } from "../../Endpoint.ts"
import type { Claim, Lease, LoopTimes } from "../Attempt.ts"
import { literalsOf } from "../States.ts"
import { due, endpoints, givenEndpoints, lockedEndpoints, settle, type ClaimTerms, visits } from "./Visits.ts"

/**
 * Makes the commit of the statement asynchronous; always true. A claim need not be on disk before its delivery is sent. A crash of
 * PostgreSQL may lose the claim. The delivery is then pending again, and the result of the attempt is refused, because the row no
 * longer has the claim. The commit of a result also flushes the claim.
 */
const isAsynchronous = (sql: SqlClient.SqlClient) => sql`(SELECT set_config('synchronous_commit', 'off', true)) = 'off'`

/** A leased delivery, or an endpoint of `terms.named` whose row another statement has locked. */
type Row = Claim | (Endpoint & { readonly id: null })

const claimed = literalsOf("claimed")

/**
 * Claims deliveries of the endpoints in `terms.named` and, in a poll, of due endpoints: as many as there are free slots, and
 * deliveries to lease ahead. Returns the leased deliveries, and the endpoints of `terms.named` that were not visited because
 * another statement has locked their rows.
 *
 * - `endpoint`: the visited endpoints, whose rows are locked.
 * - `visit`: these endpoints, with the number of deliveries that each may get (`quota`).
 * - `pending`: the first `quota` pending deliveries of each endpoint, in the order of the index `deliveries_open`, and one more,
 *   which gives the next due time of the endpoint.
 * - `leased`: the chosen deliveries. The lock of the endpoint excludes other claims, so the update by `ctid` needs no row lock.
 *
 * If a transaction that is no claim has locked a delivery, the claim fails after `lock_timeout`. With `skipsLocked`, it leaves out
 * such deliveries, at the cost of a lock for each delivery that it leases. The sweep marks their endpoints again.
 */
export const claim = (
  sql: SqlClient.SqlClient,
  terms: ClaimTerms & { readonly leaseMillis: number },
  skipsLocked = false
) => {
  const [row, queue] = [
    sql`SELECT ctid AS row, available_at`,
    sql`FROM deliveries
      WHERE project_id = visit.project_id AND installation_id = visit.installation_id
        AND finished_at IS NULL AND available_at >= visit.open_from AND status = ${sql.literal(claimed.from)}
      ORDER BY available_at, id LIMIT quota + 1`
  ]
  const placed = skipsLocked
    ? sql`SELECT *, row_number() OVER () AS place FROM (${row} ${queue} FOR NO KEY UPDATE SKIP LOCKED) free`
    : sql`${row}, row_number() OVER (ORDER BY available_at, id) AS place ${queue}`
  return sql<Row>`
  WITH RECURSIVE ${givenEndpoints(sql, terms)},
  ${terms.isPoll ? sql`${due(sql, "healthy", terms)}, ${due(sql, "suspect", terms)},` : sql``}
  endpoint AS MATERIALIZED (${endpoints(sql, terms)}),
  ${visits(sql, terms)},
  pending AS MATERIALIZED (
    SELECT visit.project_id, visit.installation_id, suspect, endpoint_url, version, secrets, row, available_at,
      place <= quota AND available_at <= now() AS chosen
    FROM visit, LATERAL (
      ${placed}
    ) delivery
  ),
  leased AS (
    UPDATE deliveries SET status = ${sql.literal(claimed.to)}, attempts = attempts + 1,
      leased_until = now() + ${terms.leaseMillis}::float8 * interval '1 millisecond'
    FROM pending WHERE chosen AND deliveries.ctid = pending.row AND deliveries.status = ${sql.literal(claimed.from)} AND ${isAsynchronous(sql)}
    RETURNING deliveries.project_id, deliveries.installation_id, deliveries.id,
      coalesce(replay_of, deliveries.id) AS webhook_id, attempts, leased_until, retries, event_id,
      suspect, endpoint_url, version, secrets
  ),
  settled AS (${settle(sql, terms)})
  SELECT project_id AS "projectId", installation_id AS "installationId", id, webhook_id AS "webhookId", attempts AS attempt,
    leased_until AS "leasedUntil", retries, suspect, endpoint_url AS "endpointUrl", version, secrets,
    event_id AS "eventId", event.*
  FROM leased, LATERAL (
    SELECT type, data::text AS data, occurred_at AT TIME ZONE 'UTC' AS "occurredAt", traceparent FROM events
    WHERE project_id = leased.project_id AND id = leased.event_id LIMIT 1
  ) event
  UNION ALL
  SELECT locked.*, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
  FROM (${lockedEndpoints(sql, terms)}) locked`.pipe(
    Effect.map((rows) => ({
      claims: rows.filter((row) => row.id !== null),
      locked: rows.filter((row) => row.id === null)
    }))
  )
}

const zero: LoopTimes = { turns: 0, idle: 0 }

/**
 * Returns a lease for each claim. The driver creates new strings for each claim, even if the endpoint is the same. Successive
 * leases of one endpoint share one copy of its strings, because thousands of leases may wait and each copy costs time in garbage
 * collection.
 */
export const leasesOf = (claims: ReadonlyArray<Claim>, now: number): ReadonlyArray<Lease> => {
  const leases: Array<Lease> = []
  let last = claims[0]
  for (const claim of claims) {
    const lease: Lease = {
      ...claim,
      webhookId: oneOf(claim.id, claim.webhookId),
      projectId: oneOf(last?.projectId, claim.projectId),
      installationId: oneOf(last?.installationId, claim.installationId),
      endpointUrl: oneOf(last?.endpointUrl, claim.endpointUrl),
      secrets: oneOf(last?.secrets, claim.secrets),
      type: oneOf(last?.type, claim.type),
      // All leases of a claim end at the same time.
      leasedUntil: claims[0]?.leasedUntil ?? claim.leasedUntil,
      startedAt: now,
      beganAt: 0,
      loop: zero
    }
    leases.push(lease)
    last = lease
  }
  return leases
}

/** Returns `known` if both texts are equal, so that the other copy can be collected. */
const oneOf = <A extends string>(known: A | undefined, text: A): A => (known === text ? known : text)
