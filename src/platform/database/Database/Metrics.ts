/** Measures the connections of each pool, and the statements that run with a timeout. */
import { Context, Effect, Metric } from "effect"
import type { Socket } from "node:net"
import { MetricsEnabled } from "../../telemetry/MetricsEnabled.ts"

const connections = Metric.gauge("db_client_connection_count", { description: "Open connections, by pool" })

const maxConnections = Metric.gauge("db_client_connection_max", {
  description: "Maximum number of connections of a pool"
})

const inFlight = Metric.gauge("db_client_statements_in_flight", {
  description: "Statements that are sent or wait for a connection"
})

/** The boundaries, in seconds, are those of OpenTelemetry's semantic conventions for databases. */
const duration = Metric.histogram("db_client_operation_duration_seconds", {
  description: "Duration of statements, including the wait for a connection",
  boundaries: [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10]
})

export const countConnections = Effect.fnUntraced(function* (pool: string, max: number) {
  if (!(yield* MetricsEnabled)) return (connection: Socket) => connection
  const context = yield* Effect.context<never>()
  const attributes = { db_client_connection_pool_name: pool }
  const open = Metric.withAttributes(connections, attributes)
  yield* Metric.update(Metric.withAttributes(maxConnections, attributes), max)
  return (connection: Socket) => {
    open.modifyUnsafe(1, context)
    return connection.once("close", () => open.modifyUnsafe(-1, context))
  }
})

const unmeasured = () => {}

export const begin = (context: Context.Context<never>): (() => void) => {
  if (!Context.get(context, MetricsEnabled)) return unmeasured
  const began = performance.now()
  inFlight.modifyUnsafe(1, context)
  return () => {
    inFlight.modifyUnsafe(-1, context)
    duration.updateUnsafe((performance.now() - began) / 1000, context)
  }
}
