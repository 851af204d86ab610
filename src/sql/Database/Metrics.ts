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

/** The answer of a server without TLS to a request for it, which comes before the session. */
const refusesTls = (chunk: Buffer) => chunk.length === 1 && chunk[0] === 0x4e

/**
 * A connection counts once the server has answered. A request to cancel a statement has a connection of its own, which is no session
 * and, without TLS, gets no answer.
 */
export const countConnections = Effect.fnUntraced(function* (pool: string, max: number) {
  if (!(yield* MetricsEnabled)) return (connection: Socket) => connection
  const context = yield* Effect.context<never>()
  const attributes = { db_client_connection_pool_name: pool }
  const open = Metric.withAttributes(connections, attributes)
  yield* Metric.update(Metric.withAttributes(maxConnections, attributes), max)
  return (connection: Socket) => {
    const count = (chunk: Buffer) => {
      if (refusesTls(chunk)) return
      connection.off("data", count)
      open.modifyUnsafe(1, context)
      let isOpen = true
      const end = () => {
        if (isOpen) open.modifyUnsafe(-1, context)
        isOpen = false
      }
      connection.once("finish", end).once("close", end)
    }
    return connection.on("data", count)
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
