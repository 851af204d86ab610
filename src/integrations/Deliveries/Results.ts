/** Records what became of attempts: states, attempt logs and the health of endpoints, of many at once in one statement. */
import type { SqlClient } from "effect/sql"
import { type Claim, claimed, holderOf, isFree, take, type Terms, turnOf } from "./Claims.ts"
import { failuresToPark, firstPause, longestPause } from "./Health.ts"
import { after } from "./States.ts"

/** What became of an attempt. */
export interface Result extends Pick<Claim, "projectId" | "installationId" | "id" | "attempt"> {
  readonly on: "succeeded" | "failed" | "exhausted" | "released" | "unsent"
  readonly statusCode: number | null
  readonly errorCode: string | null
  readonly startedAt: Date
  readonly finishedAt: Date
  /** When the next attempt is due, where there is one. */
  readonly availableAt: Date | null
  /** Until when the endpoint asks to be left alone. */
  readonly restUntil: Date | null
  /** Spreads the pause of the endpoint, should it be parked now. */
  readonly spread: number
}

/** What is claimed along with results. */
export interface Ahead extends Terms {
  /**
   * Of an endpoint at most, in place of its concurrency, while its answers are good and quick and all that is in flight to
   * it is the holder's, who sends no more at a time than its concurrency.
   */
  readonly ahead: number
}

/** An endpoint that answers sooner (in milliseconds) has the next deliveries claimed ahead. */
const quick = 100

/** Its row, with its entry in the log of attempts; what is null is left out. */
const rowOf = (result: Result, place: number) => {
  const { attempt, errorCode, finishedAt, id, installationId, on, projectId, startedAt, statusCode } = result
  const durationMs = finishedAt.getTime() - startedAt.getTime()
  return {
    place,
    projectId,
    installationId,
    id,
    attempt,
    on,
    to: after(on),
    quick: on === "succeeded" && durationMs < quick,
    entry: { number: attempt, startedAt, finishedAt, statusCode, errorCode, durationMs },
    ...(on === "succeeded"
      ? {}
      : { availableAt: result.availableAt, restUntil: result.restUntil, spread: result.spread })
  }
}

/**
 * Records results; those of attempts that have lost their lease change nothing. The rows of endpoints are locked in
 * order, so that two batches never wait for each other in a circle. Whoever records for an endpoint holds its gate, and
 * claims at the same time what is due for it next.
 *
 * As in `take`, no join is left to the planner. A row that a worker has leased is written by that worker alone, one
 * statement after the other, until the lease is lost: so it is still where it was found.
 */
export const record = (sql: SqlClient.SqlClient, results: ReadonlyArray<Result>, { ahead, ...terms }: Ahead) => {
  const limit = sql`
    CASE WHEN quick AND ${holderOf(sql, terms, "next")} IS NOT NULL THEN ${ahead}::int ELSE ${terms.endpointConcurrency}::int END`
  return sql<Claim>`
  WITH result AS (
    SELECT * FROM jsonb_to_recordset(${JSON.stringify(results.map(rowOf))}::jsonb) AS result (
      place int, "projectId" text, "installationId" text, id text, attempt int, "on" text, "to" text, quick boolean, entry jsonb,
      "availableAt" timestamptz, "restUntil" timestamptz, spread float8
    )
    -- All of them; but the planner takes them for few, and uses indexes.
    WHERE place BETWEEN 0 AND 1000000
  ),
  gate AS MATERIALIZED (
    SELECT health.* FROM endpoint_health health
    WHERE (project_id, installation_id) IN (SELECT "projectId", "installationId" FROM result)
    ORDER BY project_id, installation_id
    FOR NO KEY UPDATE
  ),
  leased AS MATERIALIZED (
    SELECT result.*, delivery.row, "on" = 'unsent' AS unsent FROM result, LATERAL (
      SELECT ctid AS row FROM deliveries
      WHERE project_id = result."projectId" AND id = result.id AND status = 'delivering' AND attempts = result.attempt
      LIMIT 1
    ) delivery
    -- Every gate is locked before the first row is written.
    WHERE (SELECT count(*) FROM gate) > 0
  ),
  recorded AS (
    UPDATE deliveries SET
      status = leased."to",
      retries = deliveries.retries + (leased."on" = 'failed')::int,
      available_at = CASE WHEN unsent THEN deliveries.available_at ELSE leased."availableAt" END,
      leased_until = NULL,
      finished_at = CASE WHEN leased."to" IN ('delivered', 'dead') THEN (leased.entry->>'finishedAt')::timestamptz END,
      attempts = deliveries.attempts - unsent::int,
      attempt_log = CASE WHEN unsent THEN deliveries.attempt_log ELSE deliveries.attempt_log || leased.entry END
    FROM leased
    WHERE deliveries.ctid = leased.row AND deliveries.status = 'delivering' AND deliveries.attempts = leased.attempt
    RETURNING deliveries.project_id, deliveries.installation_id, place, "on", "restUntil", spread, quick
  ),
  counted AS (
    SELECT project_id, installation_id, sum(in_flight)::int AS in_flight,
      CASE WHEN bool_or("on" = 'succeeded') THEN 0 ELSE max(failures) END
        + count(*) FILTER (WHERE failed AND place > coalesce(last_success, -1))::int AS failures,
      CASE WHEN bool_or("on" = 'succeeded') THEN 0 ELSE max(failed_probes) END AS failed_probes,
      CASE WHEN bool_or("on" = 'succeeded') THEN NULL ELSE max(parked_until) END AS parked_until,
      max(resting_until) AS resting_until,
      bool_or(failed AND place > coalesce(last_success, -1)) AS failing,
      max(spread) AS spread, bool_and(quick) AS quick, max(holder) AS holder
    FROM (
      SELECT *, "on" IN ('failed', 'exhausted') AS failed,
        max(place) FILTER (WHERE "on" = 'succeeded') OVER (PARTITION BY project_id, installation_id) AS last_success
      FROM (
        SELECT project_id, installation_id, in_flight, failures, failed_probes, parked_until, resting_until,
          NULL::int AS place, NULL AS "on", NULL::float8 AS spread, NULL::boolean AS quick, holder
        FROM gate
        UNION ALL
        SELECT project_id, installation_id, -1, NULL, NULL, NULL, "restUntil", place, "on", spread, quick, NULL FROM recorded
      ) change
    ) change
    GROUP BY project_id, installation_id
  ),
  next AS MATERIALIZED (
    SELECT project_id, installation_id, in_flight, failures,
      -- Only a probe is made once the pause is over.
      failed_probes + (failing AND coalesce(parked_until <= ${terms.now}::timestamptz, false))::int AS failed_probes,
      CASE
        WHEN failing AND parked_until IS NULL AND failures >= ${failuresToPark}::int
          THEN ${terms.now}::timestamptz + ${firstPause}::float8 * spread * interval '1 millisecond'
        WHEN failing AND parked_until <= ${terms.now}::timestamptz
          THEN ${terms.now}::timestamptz + spread * interval '1 millisecond'
            -- The exponent is bounded, too: an endpoint may be dead for weeks.
            * least(${firstPause}::float8 * 2 ^ least(failed_probes + 1, 20), ${longestPause}::float8)
        ELSE parked_until
      END AS parked_until,
      resting_until, holder, quick
    FROM counted
  ),
  turn AS MATERIALIZED (
    SELECT project_id, installation_id, ${turnOf(sql, terms, limit)}
    FROM next JOIN webhooks USING (project_id, installation_id)
    WHERE webhooks.enabled AND ${isFree(sql, terms, limit)}
  ),
  ${take(sql, terms)},
  settled AS (
    UPDATE endpoint_health health SET
      in_flight = now.in_flight, failures = now.failures, failed_probes = now.failed_probes,
      parked_until = now.parked_until, resting_until = now.resting_until,
      holder = CASE WHEN now.served THEN now.holder ELSE health.holder END,
      served_at = CASE WHEN now.served THEN ${terms.now}::timestamptz ELSE health.served_at END
    FROM (
      SELECT project_id, installation_id, sum(in_flight)::int AS in_flight, max(failures) AS failures,
        max(failed_probes) AS failed_probes, max(parked_until) AS parked_until, max(resting_until) AS resting_until,
        max(holder) AS holder, bool_or(served) AS served
      FROM (
        SELECT project_id, installation_id, in_flight, failures, failed_probes, parked_until, resting_until,
          ${holderOf(sql, terms, "next")} AS holder, false AS served
        FROM next
        UNION ALL
        SELECT project_id, installation_id, 1, NULL, NULL, NULL, NULL, NULL, true FROM claimed
      ) change
      GROUP BY project_id, installation_id
    ) now
    WHERE health.project_id = now.project_id AND health.installation_id = now.installation_id
  )
  ${claimed(sql)}`
}
