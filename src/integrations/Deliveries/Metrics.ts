/** What of deliveries is measured; only where something reads it. */
import { Effect, Metric, Option } from "effect"
import type { SqlClient } from "effect/sql"
import { Settings } from "../../platform/Settings.ts"
import type { Result } from "./Results.ts"

const deliveries = Metric.counter("webhook_deliveries_total", {
  description: "Attempts of deliveries, by what became of them",
  incremental: true
})

const duration = Metric.histogram("webhook_attempt_duration_seconds", {
  description: "How long attempts took",
  boundaries: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15]
})

const depth = Metric.gauge("webhook_queue_depth", { description: "Deliveries that wait, due or not" })

const oldest = Metric.gauge("webhook_oldest_due_seconds", { description: "For how long the oldest due one has waited" })

/** Whether anybody reads metrics. */
export const enabled = Effect.map(
  Settings,
  ({ adminPort, telemetry }) => Option.isSome(adminPort) || Option.isSome(telemetry)
)

export const count = (results: ReadonlyArray<Result>) =>
  Effect.forEach(
    results,
    ({ finishedAt, on, startedAt }) =>
      Effect.andThen(
        Metric.update(Metric.withAttributes(deliveries, { outcome: on }), 1),
        Metric.update(duration, (finishedAt.getTime() - startedAt.getTime()) / 1000)
      ),
    { discard: true }
  )

/** Measures the queue as it stands. */
export const gauge = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, now: Date) {
  const [queue] = yield* sql<{ readonly depth: number; readonly seconds: number }>`
    SELECT count(*)::int AS depth,
      coalesce(extract(epoch FROM ${now}::timestamptz - min(available_at) FILTER (WHERE available_at <= ${now}::timestamptz)), 0)::float8 AS seconds
    FROM deliveries WHERE finished_at IS NULL AND status = 'pending'`
  yield* Metric.update(depth, queue?.depth ?? 0)
  yield* Metric.update(oldest, queue?.seconds ?? 0)
})
