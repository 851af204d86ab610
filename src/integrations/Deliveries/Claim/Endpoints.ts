/** The endpoints that a claim visits, as parts of its statement. */
import type { SqlClient } from "effect/sql"
import type { InstallationId, ProjectId } from "../../../api/Ids.ts"

export interface Endpoint {
  readonly projectId: ProjectId
  readonly installationId: InstallationId
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

/**
 * Locks the endpoints to visit. A row that another statement has locked is skipped: a claim of another worker takes what is
 * due there, and the sweep is behind all others.
 *
 * `lacking` is how many deliveries an endpoint may have in flight beyond those that it has, `ahead` how many may be leased.
 * Both are 0 while nothing may be sent to it.
 */
export const endpoints = (sql: SqlClient.SqlClient, terms: Omit<Terms, "leaseMillis">) => sql`
  SELECT health.project_id, health.installation_id, suspect, claim_at, webhook.*,
    open * greatest(0, CASE WHEN suspect THEN 1 ELSE ${terms.concurrency}::int END - in_flight) AS lacking,
    open * greatest(0, CASE WHEN suspect THEN 1 ELSE width END - in_flight) AS ahead
  FROM (${candidates(sql, terms)}) candidate
    JOIN endpoint_health health USING (project_id, installation_id), LATERAL (
      SELECT enabled, endpoint_url, ${validSecrets(sql)} AS secrets,
        (enabled AND coalesce(greatest(parked_until, resting_until) <= now(), true))::int AS open
      FROM webhooks
      WHERE project_id = health.project_id AND installation_id = health.installation_id LIMIT 1
    ) webhook
  WHERE coalesce(worker_id = ${terms.workerId}::bigint, true)
  FOR NO KEY UPDATE OF health SKIP LOCKED`

/** The endpoints that are due, the longest due first, and those named; each once, with the number that may be leased of it. */
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

/** The secrets of the row of `webhooks` that sign a delivery now. A rotation keeps them few. */
export const validSecrets = (sql: SqlClient.SqlClient) => sql`(
  SELECT string_agg(encode(sealed, 'base64'), ' ' ORDER BY secret.version DESC) FROM webhook_secrets secret
  WHERE secret.project_id = webhooks.project_id AND secret.installation_id = webhooks.installation_id
    AND retires_at > now()
)`

/**
 * Shares the slots among the endpoints. While there are enough for all that is lacking, each endpoint gets what may be
 * leased ahead, too. Otherwise the slots are divided evenly, the rest to those that have been due for longest; what an
 * endpoint does not use of its share is for the next claim.
 */
export const quotas = (sql: SqlClient.SqlClient, { healthy, suspect }: Terms["slots"]) => sql`
  SELECT *, CASE
      WHEN sum(lacking) OVER (PARTITION BY suspect) <= free THEN ahead
      ELSE least(lacking, free / count(*) OVER sharing + (row_number() OVER longest <= free % count(*) OVER sharing)::int)
    END AS quota
  FROM (SELECT *, CASE WHEN suspect THEN ${suspect}::int ELSE ${healthy}::int END AS free FROM endpoint) endpoint
  WINDOW sharing AS (PARTITION BY suspect, lacking > 0), longest AS (sharing ORDER BY claim_at)`

/**
 * Writes what a claim has left: an endpoint with due deliveries left is due `now()`, behind all that have waited.
 */
export const settle = (
  sql: SqlClient.SqlClient,
  { concurrency, workerId }: Pick<Terms, "concurrency" | "workerId">
) => sql`
  UPDATE endpoint_health health SET
    in_flight = health.in_flight + leases,
    worker_id = CASE WHEN health.in_flight + leases > 0 THEN ${workerId}::bigint END,
    next_due_at = CASE WHEN enabled AND next_at IS NOT NULL THEN greatest(next_at, now()) END,
    discarding = health.discarding OR (NOT enabled AND next_at IS NOT NULL),
    saturated = health.in_flight + leases >= CASE WHEN health.suspect THEN 1 ELSE ${concurrency}::int END
  FROM (
    SELECT project_id, installation_id, bool_and(enabled) AS enabled, sum(lease)::int AS leases, min(next_at) AS next_at
    FROM (
      SELECT project_id, installation_id, enabled, 0 AS lease, NULL::timestamptz AS next_at FROM endpoint
      UNION ALL SELECT project_id, installation_id, true, count(*), NULL FROM leased GROUP BY project_id, installation_id
      UNION ALL SELECT project_id, installation_id, true, 0, available_at FROM pending WHERE NOT chosen
    ) change GROUP BY project_id, installation_id
  ) change
  WHERE health.project_id = change.project_id AND health.installation_id = change.installation_id`
