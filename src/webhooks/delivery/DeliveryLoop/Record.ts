/** Records the results of attempts: states, attempt logs and the health of endpoints (contract §10), in batches. */
import { Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { once, withTimeout } from "../../../sql/Database.ts"
import { entryOf, failureOf, type Lease, logWith, type Result } from "../Attempt.ts"
import { type Results, separate, type Separated } from "./Results.ts"
import { bucketOf, countAttempts, countResults } from "../DeliveryMetrics.ts"
import {
  type Endpoint,
  failuresToPark,
  firstPause,
  hasFailedTooLong,
  isGone,
  keyOf,
  longestPause,
  strikesToSuspect
} from "../../Endpoint.ts"
import { after, literalsOf } from "../States.ts"
import { disable } from "../Disabling.ts"

/** Runs a statement once, without a retry if a row is locked. */
export const tried = <A>(effect: Effect.Effect<A, SqlError.SqlError>) => withTimeout(once(effect))

interface RecordingOptions {
  readonly results: Results
  readonly queues: {
    readonly recorded: (lease: Lease) => void
    readonly name: (endpoints: ReadonlyArray<Endpoint>) => void
  }
  readonly concurrency: number
  readonly disableAfterMillis: number
  /** The number of the rows in which this worker counts attempts. */
  readonly counter: bigint
  readonly measured: boolean
  /** Wakes the loop. */
  readonly signal: () => void
}

const leasesIn = (results: ReadonlyArray<Result>) => results.map(({ lease }) => lease)

/** Makes the step of the loop that records results. If the database fails, it keeps them; after a defect it drops them. */
export const makeRecording = (sql: SqlClient.SqlClient, options: RecordingOptions) => {
  const { concurrency, disableAfterMillis, measured, queues, results, signal } = options
  let { counter } = options

  /** Records a batch. Results whose rows other transactions have locked are deferred. */
  const recordBatch = Effect.fnUntraced(function* (batch: ReadonlyArray<Result>) {
    const gone = leasesIn(batch.filter(({ statusCode }) => isGone(statusCode)))
    const kept = gone.length === 0 ? [] : yield* tried(disable(sql, gone, "gone", disableAfterMillis))
    const open = results.defer(batch, kept)
    const endpoints = yield* tried(record(sql, open, { concurrency, disableAfterMillis, workerId: counter }))
    const done = results.defer(
      open,
      endpoints.filter(({ isLocked }) => isLocked)
    )
    for (const { lease } of done) queues.recorded(lease)
    queues.name(endpoints.filter(({ isDue }) => isDue))
    const failing = new Set(endpoints.filter(({ hasFailedTooLong }) => hasFailedTooLong).map(keyOf))
    const failed = leasesIn(done).filter((lease) => failing.has(keyOf(lease)))
    // If this fails, the next failed attempt of the endpoint leads to another try.
    if (failed.length > 0) yield* Effect.ignore(tried(disable(sql, failed, "failing", disableAfterMillis)))
    if (measured) yield* countResults(done)
  })

  /** Records a batch of deferred results, but for those whose deliveries are still locked. */
  const recordDeferred = Effect.fnUntraced(function* (batch: ReadonlyArray<Result>) {
    const open = results.defer(batch, yield* tried(lockedDeliveries(sql, batch)))
    if (open.length > 0) yield* recordBatch(open)
  })

  const recorded = (batch: ReadonlyArray<Result>, by: typeof recordBatch) => {
    if (batch.length === 0) return Effect.void
    return by(batch).pipe(
      Effect.catchTag("Contended", () =>
        Effect.sync(() => {
          // A row of counts may be what is locked: from now on, this worker counts in new rows.
          counter++
          results.defer(batch, leasesIn(batch))
        })
      ),
      Effect.tapError(() => Effect.sync(() => results.keep(batch))),
      Effect.tapDefect(() => Effect.sync(() => batch.forEach(({ lease }) => queues.recorded(lease)))),
      Effect.uninterruptible,
      Effect.ensuring(Effect.sync(() => (results.isEmpty() ? undefined : signal())))
    )
  }

  /** Records a batch and, if a poll is due, a batch of deferred results. */
  const recordResults = (isPoll: () => boolean) =>
    Effect.suspend(() => recorded(results.take(), recordBatch)).pipe(
      Effect.andThen(Effect.suspend(() => (isPoll() ? recorded(results.takeDeferred(), recordDeferred) : Effect.void)))
    )

  return { recordBatch, recordResults }
}

interface RecordLimits {
  /** Maximum number of deliveries in flight to one endpoint. */
  readonly concurrency: number
  readonly disableAfterMillis: number
  readonly workerId: bigint
}

/** An endpoint that needs another step after a batch: a new claim, disabling its webhook, or recording its results later. */
interface EndpointFollowUp extends Endpoint {
  /** Whether a claim would find a due delivery now. */
  readonly isDue: boolean
  /** Whether the endpoint has failed for too long, so that its webhook is to be disabled. */
  readonly hasFailedTooLong: boolean
  /** Whether another transaction has locked the row of the endpoint: its results are not recorded yet. */
  readonly isLocked: boolean
}

const [delivered, pending, delivering] = [after("succeeded"), after("failed"), literalsOf("succeeded").from]

/**
 * Records a batch. Returns the endpoints that are due now, have failed for too long, or are locked. A result whose lease is lost
 * changes nothing. A result of an attempt that was claimed with an earlier version of the webhook changes only the delivery, not
 * the health of the endpoint, unless the webhook is disabled. If it is a 410 and the schedule has another attempt, the delivery is
 * retried.
 *
 * `gate` locks the rows of endpoints before the first delivery is written. It skips rows that are locked already, so a
 * transaction that holds one row does not delay the results of other endpoints.
 *
 * `replayed` marks the dead deliveries of an event that a replay has delivered. `freed` sums up the recorded results of each endpoint.
 * `health` adds the sums to the row of the endpoint, or clears its failures if one of the results is a success. It parks the endpoint
 * after `failuresToPark` failures in a row, and again after each failed probe (see `Endpoint.ts`).
 */
export const record = (
  sql: SqlClient.SqlClient,
  results: ReadonlyArray<Result>,
  { concurrency, disableAfterMillis, workerId }: RecordLimits
) => {
  const separated = separate(results)
  const { endpoints } = separated
  return sql<EndpointFollowUp>`
  WITH endpoint AS MATERIALIZED (
    SELECT * FROM unnest(
      ${endpoints.map(({ projectId }) => projectId)}::text[], ${endpoints.map(({ installationId }) => installationId)}::text[],
      ${endpoints.map(({ version }) => version)}::int[], ${endpoints.map(({ at }) => at)}::int[]
    ) AS endpoint (project_id, installation_id, version, at)
  ),
  gate AS MATERIALIZED (
    SELECT at, (webhooks.version = endpoint.version OR NOT enabled)::int AS is_current
    FROM endpoint JOIN endpoint_health USING (project_id, installation_id) JOIN webhooks USING (project_id, installation_id)
    FOR NO KEY UPDATE OF endpoint_health SKIP LOCKED
  ),
  recorded AS (
    UPDATE deliveries SET
      status = to_state,
      retries = retries + (on_move = 'failed')::int,
      attempts = attempts - (on_move = 'unsent')::int,
      available_at = CASE
        WHEN to_state <> 'pending' THEN NULL
        WHEN on_move = 'unsent' THEN available_at
        ELSE now() + greatest(retry_in, is_current * rest_for) * interval '1 millisecond'
      END,
      leased_until = NULL,
      finished_at = CASE WHEN to_state <> 'pending' THEN now() END,
      attempt_log = CASE WHEN on_move = 'unsent' THEN attempt_log ELSE ${logWith(sql, sql`entry::jsonb`)} END
    FROM (${rows(sql, results, separated)}) result, LATERAL (${details(sql, separated)}) detail, LATERAL (
      SELECT CASE WHEN is_repeated THEN 'failed' ELSE given_move END AS on_move,
        CASE WHEN is_repeated THEN ${pending} ELSE given_state END AS to_state
      FROM (SELECT is_current = 0 AND given_move = 'exhausted' AND retry_in > 0 AS is_repeated) earlier
    ) moved
    WHERE deliveries.project_id = result.project_id AND deliveries.installation_id = result.installation_id
      AND deliveries.id = result.id AND deliveries.status = ${sql.literal(delivering)}
      AND deliveries.attempts = result.attempt AND deliveries.leased_until = result.fence
      AND is_current IS NOT NULL
    RETURNING deliveries.project_id, deliveries.installation_id, deliveries.id, event_id, replay_id, available_at, on_move, bucket,
      is_current = 1 AND on_move = 'succeeded' AS ok,
      is_current * rest_for AS rest_for, is_current * detail.strikes AS strikes, jitter,
      CASE WHEN is_current = 1 AND on_move IN ('failed', 'exhausted') THEN place END AS failed_place
  ),
  replayed AS (
    UPDATE deliveries SET replayed_by = original.replayed_by FROM (
      SELECT original.row, recorded.id AS replayed_by FROM recorded, LATERAL (
        SELECT ctid AS row FROM deliveries
        WHERE project_id = recorded.project_id AND event_id = recorded.event_id AND event_id IS NOT NULL
          AND installation_id = recorded.installation_id AND status = 'dead'
        FOR NO KEY UPDATE SKIP LOCKED
      ) original WHERE replay_id IS NOT NULL AND on_move = 'succeeded'
    ) original WHERE deliveries.ctid = original.row AND deliveries.status = 'dead'
  ),
  freed AS MATERIALIZED (
    SELECT project_id, installation_id, count(*)::int AS leases, bool_or(ok) AS ok, coalesce(sum(strikes), 0)::int AS strikes,
      count(*) FILTER (WHERE strikes > 0)::int AS failures, min(available_at) AS due_at, max(jitter) AS jitter,
      CASE WHEN sum(strikes) > 0 THEN now() END AS failed_at, max(failed_place) AS failed_place,
      now() + nullif(max(rest_for), 0) * interval '1 millisecond' AS rest_until
    FROM recorded GROUP BY project_id, installation_id
  ),
  ${countAttempts(sql, workerId)},
  ${health(sql, separated, concurrency)}
  SELECT * FROM (
    SELECT project_id AS "projectId", installation_id AS "installationId", coalesce(claim_at <= now(), false) AS "isDue",
      failed_now AND ${hasFailedTooLong(sql, disableAfterMillis)} AS "hasFailedTooLong", false AS "isLocked"
    FROM health
  ) endpoint WHERE "isDue" OR "hasFailedTooLong"
  UNION ALL
  SELECT project_id, installation_id, false, false, true FROM endpoint
  WHERE at NOT IN (SELECT at FROM gate) AND EXISTS (
    SELECT FROM endpoint_health health
    WHERE health.project_id = endpoint.project_id AND health.installation_id = endpoint.installation_id
  )`
}

/**
 * Returns the endpoints that have a delivery among the results that another transaction has locked. Records look for them only
 * after a statement of `record` has timed out: otherwise each delivery would be locked once more.
 */
const lockedDeliveries = (sql: SqlClient.SqlClient, results: ReadonlyArray<Result>) => sql<Endpoint>`
  WITH result AS MATERIALIZED (
    SELECT project_id, installation_id, id FROM unnest(
      ${results.map(({ lease }) => lease.projectId)}::text[], ${results.map(({ lease }) => lease.installationId)}::text[],
      ${results.map(({ lease }) => lease.id)}::text[]
    ) AS result (project_id, installation_id, id) JOIN deliveries USING (project_id, installation_id, id)
  ),
  free AS MATERIALIZED (
    SELECT result.project_id, id FROM result JOIN deliveries USING (project_id, id) FOR NO KEY UPDATE OF deliveries SKIP LOCKED
  )
  SELECT DISTINCT project_id AS "projectId", installation_id AS "installationId"
  FROM result WHERE (project_id, id) NOT IN (SELECT project_id, id FROM free)`

/**
 * A row for each result, with the values that every result has. `unnest` in the SELECT list reads all arrays in step. In FROM,
 * PostgreSQL would first copy each array into temporary storage.
 */
const rows = (sql: SqlClient.SqlClient, results: ReadonlyArray<Result>, { at, places }: Separated) => sql`
  SELECT unnest(${results.map(({ lease }) => lease.projectId)}::text[]) AS project_id,
    unnest(${results.map(({ lease }) => lease.installationId)}::text[]) AS installation_id,
    unnest(${results.map(({ lease }) => lease.id)}::text[]) AS id,
    unnest(${results.map(({ lease }) => lease.attempt)}::int[]) AS attempt,
    unnest(${results.map(({ lease }) => lease.leasedUntil)}::timestamptz[]) AS fence,
    unnest(${results.map(entryOf)}::text[]) AS entry,
    unnest(${results.map(({ finishedAt, startedAt }) => bucketOf(finishedAt - startedAt))}::int[]) AS bucket,
    unnest(${places}::int[]) AS place, unnest(${at}::int[]) AS endpoint`

/**
 * The values of one result, from `others` at its `place` (see `separate`). Place 0 stands for a success with the latest version: its
 * transition (`given_move`) and its new state are constant, and its delays, strikes and jitter are null. `is_current` is 1 if the
 * webhook has the version of the result or is disabled, 0 if not, and null if `gate` has not locked the endpoint. An array in a
 * subquery is built once, not for each row. Without OFFSET 0, PostgreSQL would copy the expressions, with their subqueries, to each
 * place that uses them.
 */
const details = (sql: SqlClient.SqlClient, { endpoints, others }: Separated) => sql`
  SELECT coalesce((${others.map(({ counts }) => Number(counts))}::int[])[place], 1) * ((
      SELECT array_agg(is_current ORDER BY at) FROM (
        SELECT at, max(is_current) AS is_current FROM (
          SELECT * FROM gate UNION ALL SELECT generate_series(1, ${endpoints.length}::int), NULL
        ) known GROUP BY at
      ) known
    ))[endpoint] AS is_current,
    coalesce((${others.map(({ on }) => on)}::text[])[place], 'succeeded') AS given_move,
    coalesce((${others.map(({ on }) => after(on))}::text[])[place], ${delivered}) AS given_state,
    ((SELECT ${others.map(({ retryIn }) => String(retryIn))}::float8[]))[place] AS retry_in,
    ((SELECT ${others.map(({ restFor }) => String(restFor))}::float8[]))[place] AS rest_for,
    (${others.map(({ strikes }) => strikes)}::int[])[place] AS strikes,
    ((SELECT ${others.map(({ jitter }) => String(jitter))}::float8[]))[place] AS jitter
  OFFSET 0`

/**
 * Adds `freed` to the rows of endpoints. Only SET reads the columns of `endpoint_health`, because SET sees the row that `gate`
 * has locked. A join would see the row of the statement's snapshot.
 */
const health = (sql: SqlClient.SqlClient, { others }: Separated, concurrency: number) => sql`
  health AS (
    UPDATE endpoint_health health SET
      in_flight = health.in_flight - leases,
      worker_id = CASE WHEN health.in_flight > leases THEN worker_id END,
      next_due_at = least(next_due_at, due_at),
      saturated = health.in_flight - leases >= CASE
        WHEN NOT ok AND health.strikes + freed.strikes >= ${sql.literal(String(strikesToSuspect))} THEN 1 ELSE ${concurrency}::int
      END,
      resting_until = greatest(resting_until, rest_until),
      last_success_at = CASE WHEN ok THEN now() ELSE last_success_at END,
      last_failure = coalesce((${others.map(failureOf)}::text[])[failed_place]::json, last_failure),
      strikes = CASE WHEN ok THEN 0 ELSE health.strikes + freed.strikes END,
      failures = CASE WHEN ok THEN 0 ELSE health.failures + freed.failures END,
      failing_since = CASE WHEN NOT ok THEN coalesce(failing_since, failed_at) END,
      failed_probes = CASE
        WHEN ok THEN 0
        ELSE health.failed_probes + (failed_at IS NOT NULL AND coalesce(parked_until <= now(), false))::int
      END,
      parked_until = CASE
        WHEN ok THEN NULL
        WHEN failed_at IS NULL THEN parked_until
        WHEN parked_until IS NULL THEN CASE
          WHEN health.failures + freed.failures >= ${failuresToPark}::int
            THEN now() + jitter * ${firstPause}::float8 * interval '1 millisecond'
        END
        WHEN parked_until <= now() THEN now() + jitter * interval '1 millisecond'
          * least(${firstPause}::float8 * 2 ^ least(failed_probes + 1, 20), ${longestPause}::float8)
        ELSE parked_until
      END
    FROM freed
    WHERE health.project_id = freed.project_id AND health.installation_id = freed.installation_id
    RETURNING health.project_id, health.installation_id, claim_at, failing_since, health.failures,
      failed_at IS NOT NULL AS failed_now
  )`
