/** What of deliveries is measured; only where something reads it. */
import { Effect, Metric } from "effect"
import type { SqlClient } from "effect/sql"
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

const oldest = Metric.gauge("webhook_oldest_due_seconds", {
  description: "For how long the oldest due one has waited, of those that could be sent"
})

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

/**
 * Measures the queue as it stands. What waits for an endpoint that is parked, rests or has its hands full does so by rights:
 * it doesn't count as late.
 */
export const gauge = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, now: Date, endpointConcurrency: number) {
  const [queue] = yield* sql<{ readonly depth: number; readonly seconds: number }>`
    SELECT count(*)::int AS depth,
      greatest(0, coalesce(extract(epoch FROM ${now}::timestamptz - min(available_at) FILTER (
        WHERE parked_until IS NULL AND coalesce(resting_until <= ${now}::timestamptz, true)
          AND in_flight < ${endpointConcurrency}::int
      )), 0))::float8 AS seconds
    FROM deliveries JOIN endpoint_health USING (project_id, installation_id)
    WHERE finished_at IS NULL AND status = 'pending'`
  yield* Metric.update(depth, queue?.depth ?? 0)
  yield* Metric.update(oldest, queue?.seconds ?? 0)
})
