/**
 * Metrics of deliveries, which are updated only in processes with metrics enabled (`MetricsEnabled`); and the counts of attempts in the
 * database, by minute, outcome and range of durations. The statement that records a result also counts its attempt, so both are committed
 * together. An attempt that a shutdown interrupts is not counted.
 */
import { Effect, Layer, Metric } from "effect"
import type { SqlClient } from "effect/sql"
import { isAwake } from "../../platform/MoveState.ts"
import { atZero, counter, gauge, histogram, increment } from "../../telemetry/Telemetry.ts"
import { listDue } from "../WebhookList.ts"
import type { Result } from "./Attempt.ts"
import type { Move } from "./States.ts"
import type { ProjectId } from "../../api/schema/Ids.ts"

const deliveries = counter(
  "webhook_deliveries_total",
  "Attempts of deliveries by outcome, and deliveries that were dead-lettered without one"
)
const duration = histogram(
  "webhook_attempt_duration_seconds",
  "Duration of attempts",
  [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15]
)

const maxDepth = 100_000

const depth = gauge("webhook_queue_depth", `Pending deliveries, due or not; at most ${maxDepth}, where counting stops`)
const oldest = gauge(
  "webhook_oldest_due_seconds",
  "For how long the oldest due delivery has waited, whatever its endpoint does"
)
const behind = gauge(
  "webhook_endpoints_behind",
  "Endpoints with a delivery that has been due for more than a minute, though no answer asked for a pause"
)
const replayAge = gauge("webhook_replay_oldest_seconds", "For how long the oldest unfinished replay has run")
const disabled = counter("webhook_disabled_total", "Webhooks that the service has disabled, by reason")
const hostExhausted = counter(
  "webhook_host_exhausted_total",
  "Deliveries that were returned unsent, because this host had no means for a connection: files, ports or memory"
)

const outcomes = [
  "succeeded",
  "failed",
  "exhausted",
  "released",
  "disabled",
  "expired"
] as const satisfies ReadonlyArray<Move>

/** The layer creates every series. */
export const layer = Layer.effectDiscard(
  atZero([
    ...outcomes.map((outcome) => Metric.withAttributes(deliveries, { outcome })),
    ...(["gone", "failing"] as const).map((reason) => Metric.withAttributes(disabled, { reason })),
    hostExhausted
  ])
)

export const countHostExhausted = increment(hostExhausted)

export const countDisabled = (reason: "gone" | "failing") => increment(Metric.withAttributes(disabled, { reason }))

const snapshot = gauge(
  "database_oldest_snapshot_seconds",
  "For how long the oldest snapshot of the database is open: nothing that ended since can be cleaned up"
)

/** A delivery that was returned unsent had no attempt, so it is not counted. */
export const countResults = (results: ReadonlyArray<Result>) =>
  Effect.forEach(
    results.filter(({ on }) => on !== "unsent"),
    ({ finishedAt, on, startedAt }) =>
      Effect.andThen(
        Metric.update(Metric.withAttributes(deliveries, { outcome: on }), 1),
        Metric.update(duration, (finishedAt - startedAt) / 1000)
      ),
    { discard: true }
  )

export const countDead = (outcome: "disabled" | "expired", count: number) =>
  Metric.update(Metric.withAttributes(deliveries, { outcome }), count)

/** Counts pending deliveries, up to `limit`, except in projects whose background work is stopped by a move. */
export const countPending = (sql: SqlClient.SqlClient, limit: number) =>
  sql<{ readonly pending: number }>`
    SELECT count(*)::int AS pending FROM (
      SELECT FROM deliveries WHERE finished_at IS NULL AND status = 'pending' AND ${isAwake(sql, "project_id")} LIMIT ${limit}::int
    ) AS counted`

const measureReplays = (sql: SqlClient.SqlClient) => sql<{ readonly seconds: number }>`
  SELECT coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8 AS seconds
  FROM replays WHERE state = 'running' AND ${isAwake(sql, "project_id")}`

/** Sessions of other users are seen only with the rights of `pg_read_all_stats`. */
const measureSnapshots = (sql: SqlClient.SqlClient) => sql<{ readonly seconds: number }>`
  SELECT coalesce(extract(epoch FROM now() - min(xact_start)), 0)::float8 AS seconds
  FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND datname = current_database()`

export const measure = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
  const [queue] = yield* countPending(sql, maxDepth)
  yield* Metric.update(depth, queue?.pending ?? 0)
  const [first] = yield* listDue(sql, 1)
  yield* Metric.update(oldest, first?.oldestSeconds ?? 0)
  yield* Metric.update(behind, first?.behind ?? 0)
  const [replays] = yield* measureReplays(sql)
  yield* Metric.update(replayAge, replays?.seconds ?? 0)
  const [snapshots] = yield* measureSnapshots(sql)
  yield* Metric.update(snapshot, snapshots?.seconds ?? 0)
})

/** Number of ranges between a duration and its double: a range ends 19 % above its start. */
const perDoubling = 4

/** Returns the number of the range (bucket) of a duration. Range 0 ends at 1 ms. */
export const bucketOf = (millis: number): number =>
  millis < 1 ? 0 : Math.min(100, 1 + Math.floor(perDoubling * Math.log2(millis)))

/** Retention: one day longer than the longest period of the console's charts. */
export const attemptDays = 8

/** The `project_id` of rows that count the attempts of all projects. */
export const allProjects = ""

/**
 * Returns a common table expression that counts the attempts in `recorded`, both for their project and for all projects.
 * `recorded` has the columns `project_id`, `on_move` (the outcome) and `bucket`.
 */
export const countAttempts = (sql: SqlClient.SqlClient, workerId: bigint) => sql`
  counted AS (
    INSERT INTO attempt_minutes AS minutes (project_id, minute, worker_id, delivered, bucket, attempts)
    SELECT coalesce(project_id, ${allProjects}), date_trunc('minute', now()), ${workerId}::bigint, delivered, bucket, count(*)::int
    FROM (SELECT project_id, on_move = 'succeeded' AS delivered, bucket FROM recorded
      WHERE on_move IN ('succeeded', 'failed', 'exhausted')) attempt
    GROUP BY GROUPING SETS ((project_id, delivered, bucket), (delivered, bucket))
    ON CONFLICT (project_id, minute, worker_id, delivered, bucket) DO UPDATE SET attempts = minutes.attempts + excluded.attempts
  )`

/** The attempts in a slice of time. Slice 0 ends now. */
export interface Slice {
  readonly slice: number
  readonly delivered: number
  readonly failed: number
  /** Percentiles of the durations in milliseconds, rounded up to the end of a range; null if there is no attempt. */
  readonly p50: number | null
  readonly p95: number | null
}

/** Reads the attempts of a project, or of all projects if `projectId` is null, in the last `slices` slices of `minutes` minutes. */
export const readAttempts = (
  sql: SqlClient.SqlClient,
  projectId: ProjectId | null,
  { minutes, slices }: { readonly minutes: number; readonly slices: number }
) => sql<Slice>`
  SELECT slice, coalesce(delivered, 0)::int AS delivered, coalesce(failed, 0)::int AS failed,
    2 ^ (p50::float8 / ${perDoubling}::int) AS p50, 2 ^ (p95::float8 / ${perDoubling}::int) AS p95
  FROM generate_series(0, ${slices}::int - 1) AS slice LEFT JOIN (
    SELECT slice, sum(attempts) FILTER (WHERE delivered) AS delivered, sum(attempts) FILTER (WHERE NOT delivered) AS failed,
      min(bucket) FILTER (WHERE reached >= 0.5 * total) AS p50, min(bucket) FILTER (WHERE reached >= 0.95 * total) AS p95
    FROM (
      SELECT *, sum(attempts) OVER (PARTITION BY slice ORDER BY bucket) AS reached, sum(attempts) OVER (PARTITION BY slice) AS total
      FROM (
        SELECT (extract(epoch FROM date_trunc('minute', now()) - minute) / 60)::int / ${minutes}::int AS slice, delivered, bucket, attempts
        FROM attempt_minutes
        WHERE project_id = ${projectId ?? allProjects}
          AND minute > date_trunc('minute', now()) - ${slices * minutes}::int * interval '1 minute'
      ) attempt
    ) attempt
    GROUP BY slice
  ) counted USING (slice)
  ORDER BY slice`
