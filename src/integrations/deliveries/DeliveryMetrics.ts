/** Metrics of deliveries. They are updated only in processes with metrics enabled (`MetricsEnabled`). */
import { Effect, Layer, Metric } from "effect"
import type { SqlClient } from "effect/sql"
import { isAwake } from "../../platform/Moves.ts"
import { atZero, MetricsEnabled } from "../../telemetry/Telemetry.ts"
import { listDue } from "../endpoints/WebhookList.ts"
import type { Result } from "./DeliveryLoop/Results.ts"
import type { Move } from "./States.ts"

const deliveries = Metric.counter("webhook_deliveries_total", {
  description: "Attempts of deliveries by outcome, and deliveries that were dead-lettered without one",
  incremental: true
})

const duration = Metric.histogram("webhook_attempt_duration_seconds", {
  description: "Duration of attempts",
  boundaries: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15]
})

const maxDepth = 100_000

const depth = Metric.gauge("webhook_queue_depth", {
  description: `Pending deliveries, due or not; at most ${maxDepth}, where counting stops`
})

const oldest = Metric.gauge("webhook_oldest_due_seconds", {
  description: "For how long the oldest due delivery has waited, whatever its endpoint does"
})

const behind = Metric.gauge("webhook_endpoints_behind", {
  description: "Endpoints with a delivery that has been due for more than a minute, though no answer asked for a pause"
})

const replayAge = Metric.gauge("webhook_replay_oldest_seconds", {
  description: "For how long the oldest unfinished replay has run"
})

const disabled = Metric.counter("webhook_disabled_total", {
  description: "Webhooks that the service has disabled, by reason",
  incremental: true
})

const hostExhausted = Metric.counter("webhook_host_exhausted_total", {
  description:
    "Deliveries that were returned unsent, because this host had no means for a connection: files, ports or memory",
  incremental: true
})

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

export const countHostExhausted = Effect.flatMap(MetricsEnabled, (measured) =>
  measured ? Metric.update(hostExhausted, 1) : Effect.void
)

export const countDisabled = (reason: "gone" | "failing") =>
  Effect.flatMap(MetricsEnabled, (measured) =>
    measured ? Metric.update(Metric.withAttributes(disabled, { reason }), 1) : Effect.void
  )

const snapshot = Metric.gauge("database_oldest_snapshot_seconds", {
  description: "For how long the oldest snapshot of the database is open: nothing that ended since can be cleaned up"
})

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

export const gauge = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
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
