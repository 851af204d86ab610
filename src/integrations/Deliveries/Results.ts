/** Records what became of attempts: states, attempt logs and the health of endpoints, of many at once in one statement. */
import type { SqlClient } from "effect/sql"
import type { Claim } from "./Claims.ts"
import { failuresToPark, firstPause, longestPause } from "./Health.ts"
import { after } from "./States.ts"

/** What became of an attempt. */
export interface Result extends Pick<Claim, "projectId" | "installationId" | "id" | "attempt"> {
  readonly on: "succeeded" | "failed" | "exhausted" | "released"
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

/**
 * Records results; those of attempts that have lost their lease change nothing. The rows of endpoints are locked in
 * order, so that two batches never wait for each other in a circle.
 */
export const record = (sql: SqlClient.SqlClient, results: ReadonlyArray<Result>, now: Date) => sql<{
  readonly id: string
}>`
  WITH result AS (
    SELECT * FROM jsonb_to_recordset(${JSON.stringify(results.map((result, place) => ({ ...result, place, to: after(result.on) })))}::jsonb) AS result (
      place int, "projectId" text, "installationId" text, id text, attempt int, "on" text, "to" text,
      "statusCode" int, "errorCode" text, "startedAt" text, "finishedAt" text,
      "availableAt" timestamptz, "restUntil" timestamptz, spread float8
    )
  ),
  gate AS MATERIALIZED (
    SELECT health.* FROM endpoint_health health
    WHERE (project_id, installation_id) IN (SELECT "projectId", "installationId" FROM result)
    ORDER BY project_id, installation_id
    FOR NO KEY UPDATE
  ),
  recorded AS (
    UPDATE deliveries SET
      status = result."to",
      retries = deliveries.retries + (result."on" = 'failed')::int,
      available_at = result."availableAt",
      finished_at = CASE WHEN result."availableAt" IS NULL THEN result."finishedAt"::timestamptz END,
      attempt_log = deliveries.attempt_log || jsonb_build_object(
        'number', result.attempt, 'startedAt', result."startedAt", 'finishedAt', result."finishedAt",
        'statusCode', result."statusCode", 'errorCode', result."errorCode",
        'durationMs', round(extract(epoch FROM result."finishedAt"::timestamptz - result."startedAt"::timestamptz) * 1000)::int
      )
    FROM result JOIN gate ON gate.project_id = result."projectId" AND gate.installation_id = result."installationId"
    WHERE deliveries.project_id = result."projectId" AND deliveries.id = result.id
      AND deliveries.status = 'delivering' AND deliveries.attempts = result.attempt
    RETURNING deliveries.project_id, deliveries.installation_id, result.*
  ),
  outcome AS (
    SELECT project_id, installation_id, count(*)::int AS finished,
      bool_or("on" = 'succeeded') AS succeeded,
      count(*) FILTER (WHERE "on" IN ('failed', 'exhausted') AND place > coalesce(last_success, -1))::int AS failures,
      max("restUntil") AS rest_until, max(spread) AS spread
    FROM (
      SELECT *, max(place) FILTER (WHERE "on" = 'succeeded') OVER (PARTITION BY project_id, installation_id) AS last_success
      FROM recorded
    ) recorded
    GROUP BY project_id, installation_id
  ),
  next AS (
    SELECT gate.project_id, gate.installation_id, gate.in_flight - finished AS in_flight, rest_until, spread,
      CASE WHEN succeeded THEN 0 ELSE gate.failures END + outcome.failures AS failures,
      CASE WHEN succeeded THEN 0 ELSE gate.failed_probes END AS failed_probes,
      CASE WHEN succeeded THEN NULL ELSE gate.parked_until END AS parked_until,
      outcome.failures > 0 AS failing
    FROM gate JOIN outcome USING (project_id, installation_id)
  ),
  settled AS (
  UPDATE endpoint_health health SET
    in_flight = next.in_flight,
    failures = next.failures,
    -- Only a probe is made once the pause is over.
    failed_probes = next.failed_probes + (next.failing AND coalesce(next.parked_until <= ${now}::timestamptz, false))::int,
    parked_until = CASE
      WHEN next.failing AND next.parked_until IS NULL AND next.failures >= ${failuresToPark}::int
        THEN ${now}::timestamptz + ${firstPause}::float8 * next.spread * interval '1 millisecond'
      WHEN next.failing AND next.parked_until <= ${now}::timestamptz
        THEN ${now}::timestamptz + next.spread * interval '1 millisecond'
          -- The exponent is bounded, too: an endpoint may be dead for weeks.
          * least(${firstPause}::float8 * 2 ^ least(next.failed_probes + 1, 20), ${longestPause}::float8)
      ELSE next.parked_until
    END,
    resting_until = greatest(health.resting_until, next.rest_until)
  FROM next
  WHERE health.project_id = next.project_id AND health.installation_id = next.installation_id
  )
  SELECT id FROM recorded`
