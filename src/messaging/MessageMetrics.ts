/** Metrics of messages. The counter includes the messages of campaigns; the gauges do not. */
import { Effect, Layer, Metric, Record } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { type ProviderType, providerTypes } from "../api/messaging/Messaging.ts"
import { isAwake } from "../platform/Moves.ts"
import { atZero, MetricsEnabled } from "../telemetry/Telemetry.ts"
import { messages } from "./Messages/States.ts"

const attempts = Metric.counter("message_attempts_total", {
  description: "Attempts to send messages, by outcome",
  incremental: true
})

const outcomes = Record.keys(messages.moves).filter((move) => !move.startsWith("settled"))

/** The layer creates every series. */
export const layer = Layer.effectDiscard(
  atZero(
    providerTypes.flatMap((provider) =>
      outcomes.map((outcome) => Metric.withAttributes(attempts, { provider, outcome }))
    )
  )
)

export const count = (provider: ProviderType, outcome: string) =>
  Effect.flatMap(MetricsEnabled, (measured) =>
    measured ? Metric.update(Metric.withAttributes(attempts, { provider, outcome }), 1) : Effect.void
  )

const depth = Metric.gauge("message_queue_depth", {
  description: "Messages of conversations that wait for another attempt, due or not"
})

const oldest = Metric.gauge("message_oldest_due_seconds", {
  description: "For how long the oldest due message has waited"
})

export const gauge = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, now: Statement.Fragment) {
  const [queue] = yield* sql<{ readonly depth: number; readonly seconds: number }>`
    SELECT count(*)::int AS depth,
      greatest(0, coalesce(extract(epoch FROM ${now} - min(available_at)), 0))::float8 AS seconds
    FROM messages WHERE available_at IS NOT NULL AND NOT attempting AND ${isAwake(sql, "project_id")}`
  yield* Metric.update(depth, queue?.depth ?? 0)
  yield* Metric.update(oldest, queue?.seconds ?? 0)
})
