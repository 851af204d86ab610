/** Records the results of attempts: states, attempt logs and the health of endpoints, in batches. */
import type { SqlClient } from "effect/sql"
import { formatInstant } from "../../platform/Instants.ts"
import type { Claim } from "./Claim.ts"
import type { Endpoint } from "./Claim/Endpoints.ts"
import { keyOf } from "./EndpointQueues.ts"
import { failuresToPark, firstPause, longestPause } from "./Health.ts"
import { after, type Move } from "./States.ts"

/** Outcome of an attempt, or of a lease that is returned. Times are in milliseconds. */
export interface Result extends Pick<
  Claim,
  "projectId" | "installationId" | "id" | "attempt" | "leasedUntil" | "endpointUrl"
> {
  readonly on: Extract<Move, "succeeded" | "failed" | "exhausted" | "released" | "unsent">
  readonly statusCode: number | null
  readonly errorCode: string | null
  readonly responseBody: string | null
  readonly startedAt: number
  readonly finishedAt: number
  /** From the time of the record to the next attempt, where there is one; else 0. */
  readonly retryIn: number
  /** Delay that the endpoint has requested by `Retry-After`, in milliseconds. */
  readonly restFor: number
  /** Weight of the failure; 0 unless the attempt failed. */
  readonly strikes: number
  /** Jitter of the pause, should the endpoint be parked now. */
  readonly jitter: number
}

/**
 * The entry of the attempt log, as a JSON array: PostgreSQL takes it over as it is where the log is empty, and copies entry
 * and log otherwise.
 */
const logEntry = ({ attempt, endpointUrl, errorCode, finishedAt, responseBody, startedAt, statusCode }: Result) =>
  `[{"number":${attempt},"startedAt":"${formatInstant(startedAt)}","finishedAt":"${formatInstant(finishedAt)}",` +
  `"statusCode":${statusCode},"errorCode":${JSON.stringify(errorCode)},"durationMs":${finishedAt - startedAt},"endpointUrl":${JSON.stringify(endpointUrl)}` +
  (responseBody === null ? "}]" : `,"responseBody":${JSON.stringify(responseBody)}}]`)

/** The last failure of an endpoint, as JSON. */
const failureOf = ({ errorCode, finishedAt, statusCode }: Result) =>
  `{"at":"${formatInstant(finishedAt)}","statusCode":${statusCode},"errorCode":${JSON.stringify(errorCode)}}`

/**
 * Separates results. `endpoints` has each endpoint once. `others` has the results that are not successes; their strikes are 0
 * if a later success of the same endpoint clears them. `places` has the place of each result in `others`, from 1 on for the
 * last one, and 0 for a success.
 */
const separated = (results: ReadonlyArray<Result>) => {
  const endpoints = new Map<string, Endpoint & { succeeded: boolean }>()
  const others: Array<Result> = []
  const places = results
    .toReversed()
    .map((result) => {
      const key = keyOf(result)
      let endpoint = endpoints.get(key)
      if (endpoint === undefined) {
        endpoint = { projectId: result.projectId, installationId: result.installationId, succeeded: false }
        endpoints.set(key, endpoint)
      }
      if (result.on === "succeeded") {
        endpoint.succeeded = true
        return 0
      }
      return others.push(endpoint.succeeded ? { ...result, strikes: 0 } : result)
    })
    .toReversed()
  return { endpoints: [...endpoints.values()], others, places }
}

export interface Terms {
  /** Maximum number of deliveries in flight to one endpoint. */
  readonly concurrency: number
  /** Time without a success after which an endpoint's webhook is to be disabled. */
  readonly disableAfterMillis: number
}

/** An endpoint of which something follows from its results. */
export interface Recorded extends Endpoint {
  /** A claim would find something now. */
  readonly isDue: boolean
  /** It has failed for `disableAfterMillis`. */
  readonly isFailing: boolean
}

/**
 * Records a batch and returns the endpoints that are due now, and those that have failed for too long. A result whose lease
 * is lost changes nothing. The rows of endpoints are locked in the order of their key before the first delivery is written,
 * so two batches never deadlock.
 *
 * `freed` sums up the recorded results of each endpoint. `health` counts them and parks the endpoint: after
 * `failuresToPark` failures in a row, and again after each failed probe, which is an attempt after the pause is over.
 */
export const record = (
  sql: SqlClient.SqlClient,
  results: ReadonlyArray<Result>,
  { concurrency, disableAfterMillis }: Terms
) => {
  const { endpoints, others, places } = separated(results)
  return sql<Recorded>`
  WITH gate AS MATERIALIZED (
    SELECT FROM unnest(
      ${endpoints.map(({ projectId }) => projectId)}::text[], ${endpoints.map(({ installationId }) => installationId)}::text[]
    ) AS endpoint (project_id, installation_id) JOIN endpoint_health USING (project_id, installation_id)
    ORDER BY project_id, installation_id FOR NO KEY UPDATE OF endpoint_health
  ),
  recorded AS (
    UPDATE deliveries SET
      status = to_state,
      retries = retries + (on_move = 'failed')::int,
      attempts = attempts - (on_move = 'unsent')::int,
      available_at = CASE
        WHEN to_state <> 'pending' THEN NULL
        WHEN on_move = 'unsent' THEN available_at
        ELSE now() + retry_in * interval '1 millisecond'
      END,
      leased_until = NULL,
      finished_at = CASE WHEN to_state <> 'pending' THEN now() END,
      attempt_log = CASE WHEN on_move = 'unsent' THEN attempt_log ELSE attempt_log || entry::jsonb END
    FROM (${rows(sql, results, places)}) result, LATERAL (${details(sql, others)}) detail
    WHERE deliveries.project_id = result.project_id AND deliveries.id = result.id AND deliveries.status = 'delivering'
      AND deliveries.attempts = result.attempt AND deliveries.leased_until = result.fence
      AND (SELECT count(*) FROM gate) > 0
    RETURNING deliveries.project_id, deliveries.installation_id, available_at, on_move = 'succeeded' AS ok,
      rest_for, detail.strikes, jitter, CASE WHEN on_move IN ('failed', 'exhausted') THEN place END AS failed_place
  ),
  freed AS MATERIALIZED (
    SELECT project_id, installation_id, count(*)::int AS leases, bool_or(ok) AS ok, coalesce(sum(strikes), 0)::int AS strikes,
      count(*) FILTER (WHERE strikes > 0)::int AS failures, min(available_at) AS due_at, max(jitter) AS jitter,
      CASE WHEN sum(strikes) > 0 THEN now() END AS failed_at, min(failed_place) AS failed_place,
      now() + nullif(max(rest_for), 0) * interval '1 millisecond' AS rest_until
    FROM recorded GROUP BY project_id, installation_id
  ),
  ${health(sql, concurrency, others)}
  SELECT * FROM (
    SELECT project_id AS "projectId", installation_id AS "installationId", coalesce(claim_at <= now(), false) AS "isDue",
      coalesce(failing_since <= now() - ${disableAfterMillis}::float8 * interval '1 millisecond', false) AS "isFailing"
    FROM health
  ) endpoint WHERE "isDue" OR "isFailing"`
}

/**
 * A row for each result, with what differs among successes. `unnest` in the list of columns reads all arrays in step; in
 * FROM it would copy each array into a table of its own first.
 */
const rows = (sql: SqlClient.SqlClient, results: ReadonlyArray<Result>, places: ReadonlyArray<number>) => sql`
  SELECT unnest(${results.map(({ projectId }) => projectId)}::text[]) AS project_id,
    unnest(${results.map(({ id }) => id)}::text[]) AS id,
    unnest(${results.map(({ attempt }) => attempt)}::int[]) AS attempt,
    unnest(${results.map(({ leasedUntil }) => leasedUntil)}::timestamptz[]) AS fence,
    unnest(${results.map(logEntry)}::text[]) AS entry,
    unnest(${places}::int[]) AS place`

/**
 * What a result has by its `place`. Of a success, which has none, the move and the state are constant, and the rest is null.
 * A subquery converts its array once, not for each row.
 */
const details = (sql: SqlClient.SqlClient, others: ReadonlyArray<Result>) => sql`
  SELECT coalesce((${others.map(({ on }) => on)}::text[])[place], 'succeeded') AS on_move,
    coalesce((${others.map(({ on }) => after(on))}::text[])[place], ${after("succeeded")}) AS to_state,
    ((SELECT ${others.map(({ retryIn }) => String(retryIn))}::float8[]))[place] AS retry_in,
    ((SELECT ${others.map(({ restFor }) => String(restFor))}::float8[]))[place] AS rest_for,
    (${others.map(({ strikes }) => strikes)}::int[])[place] AS strikes,
    ((SELECT ${others.map(({ jitter }) => String(jitter))}::float8[]))[place] AS jitter`

/**
 * Counts `freed` into the rows of endpoints. The row's own columns are read in SET alone: there they are those of the
 * locked version, where a join would read those of the statement's snapshot.
 */
const health = (sql: SqlClient.SqlClient, concurrency: number, others: ReadonlyArray<Result>) => sql`
  health AS (
    UPDATE endpoint_health health SET
      in_flight = health.in_flight - leases,
      worker_id = CASE WHEN health.in_flight > leases THEN worker_id END,
      next_due_at = least(next_due_at, due_at),
      saturated = health.in_flight - leases >= CASE
        WHEN CASE WHEN ok THEN 0 ELSE health.strikes END + freed.strikes >= 3 THEN 1 ELSE ${concurrency}::int
      END,
      resting_until = greatest(resting_until, rest_until),
      last_success_at = CASE WHEN ok THEN now() ELSE last_success_at END,
      last_failure = coalesce((${others.map(failureOf)}::text[])[failed_place]::json, last_failure),
      strikes = CASE WHEN ok THEN 0 ELSE health.strikes END + freed.strikes,
      failures = CASE WHEN ok THEN 0 ELSE health.failures END + freed.failures,
      failing_since = CASE WHEN ok THEN failed_at ELSE coalesce(failing_since, failed_at) END,
      failed_probes = CASE
        WHEN ok THEN 0
        ELSE health.failed_probes + (failed_at IS NOT NULL AND coalesce(parked_until <= now(), false))::int
      END,
      parked_until = CASE
        WHEN failed_at IS NULL THEN CASE WHEN NOT ok THEN parked_until END
        WHEN ok OR parked_until IS NULL THEN CASE
          WHEN CASE WHEN ok THEN 0 ELSE health.failures END + freed.failures >= ${failuresToPark}::int
            THEN now() + jitter * ${firstPause}::float8 * interval '1 millisecond'
        END
        WHEN parked_until <= now() THEN now() + jitter * interval '1 millisecond'
          * least(${firstPause}::float8 * 2 ^ least(failed_probes + 1, 20), ${longestPause}::float8)
        ELSE parked_until
      END
    FROM freed
    WHERE health.project_id = freed.project_id AND health.installation_id = freed.installation_id
    RETURNING health.project_id, health.installation_id, failing_since, claim_at
  )`
