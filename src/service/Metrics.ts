/** Measures requests, by route, method, status and protocol, and the process: CPU, memory, the event loop, the clock and Redis. */
import { Effect, Metric } from "effect"
import { endpoints } from "../api/Api.ts"
import { atZero, counter, gauge, histogram, MetricsEnabled } from "../telemetry/Telemetry.ts"
import { SqlClient } from "effect/sql"
import { monitorEventLoopDelay } from "node:perf_hooks"
import manifest from "../../package.json" with { type: "json" }
import { monotonicMillis } from "../platform/MonotonicTime.ts"
import { statement } from "../sql/Database.ts"
import { clockDifference } from "../sql/Times.ts"
import { RateLimits } from "../http/limits/RateLimits.ts"

/** The boundaries, in seconds, are those of OpenTelemetry's semantic conventions for HTTP. */
const boundaries = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]

/** The names are those of OpenTelemetry. Prometheus has no dots in names, so its exporter replaces them. */
const attributesOf = (method: string, route: string) => ({ "http.route": route, "http.request.method": method })
const statusCode = "http.response.status_code"

interface Measurement {
  /** The route's template; empty for an unknown route. */
  readonly route: string
  readonly method: string
  readonly protocol: "http" | "mcp"
  readonly status: number
  readonly seconds: number
  readonly replayed: boolean
}

/** Makes a function that records a request; undefined if metrics are disabled. */
export const makeRecord = Effect.gen(function* () {
  if (!(yield* MetricsEnabled)) return undefined
  const context = yield* Effect.context<never>()
  const duration = histogram("http_server_request_duration_seconds", "Duration of requests", boundaries)
  const replays = counter("idempotent_replays_total", "Requests answered by a replay")
  const errors = counter("http_server_errors_total", "Requests that the service could not answer, by route and status")
  const errorsOf = (method: string, route: string, status: number) =>
    Metric.withAttributes(errors, { ...attributesOf(method, route), [statusCode]: String(status) })
  const replaysOf = (method: string, route: string, protocol: Measurement["protocol"]) =>
    Metric.withAttributes(replays, { ...attributesOf(method, route), protocol })
  yield* atZero(
    endpoints().flatMap(({ endpoint: { method, path } }) => [
      errorsOf(method, path, 500),
      errorsOf(method, path, 503),
      ...(method === "GET" ? [] : [replaysOf(method, path, "http"), replaysOf(method, path, "mcp")])
    ])
  )
  const series = new Map<string, Metric.Histogram<number>>()
  return ({ method, protocol, replayed, route, seconds, status }: Measurement) => {
    const key = `${protocol} ${method} ${route} ${status}`
    const known = series.get(key)
    const metric =
      known ??
      Metric.withAttributes(duration, { ...attributesOf(method, route), [statusCode]: String(status), protocol })
    if (known === undefined) series.set(key, metric)
    metric.updateUnsafe(seconds, context)
    if (replayed) replaysOf(method, route, protocol).updateUnsafe(1, context)
    if (status >= 500) errorsOf(method, route, status).updateUnsafe(1, context)
  }
})

export const { version } = manifest

const cpu = counter("process_cpu_seconds_total", "CPU time of the process")
const memory = gauge("process_resident_memory_bytes", "Resident memory of the process")
const heap = gauge("nodejs_heap_used_bytes", "Memory of the JavaScript heap in use")
const delay = gauge("nodejs_eventloop_delay_seconds", "Delay of the event loop since the last measurement, p99")
const build = gauge("build_info", "1, by the version of the service and of Node")
const clock = gauge("database_clock_difference_seconds", "Difference between the clocks of the host and the database")
export const limiter = gauge(
  "rate_limiter_ping_seconds",
  "Duration of a decision of the rate limiter, which is that of Redis if REDIS_URL is set"
)

/** Makes an effect that measures the process once. */
export const makeMeasure = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { ping } = yield* RateLimits
  const loop = yield* Effect.acquireRelease(
    Effect.sync(() => monitorEventLoopDelay({ resolution: 20 })),
    (loop) => Effect.sync(() => loop.disable())
  )
  loop.enable()
  let used = 0
  yield* Metric.update(Metric.withAttributes(build, { version, node: process.versions.node }), 1)
  const own = Effect.suspend(() => {
    const { system, user } = process.cpuUsage()
    const now = (system + user) / 1_000_000
    const { heapUsed, rss } = process.memoryUsage()
    const p99 = loop.percentile(99) / 1_000_000_000
    loop.reset()
    const more = now - used
    used = now
    return Effect.all([
      Metric.update(cpu, more),
      Metric.update(memory, rss),
      Metric.update(heap, heapUsed),
      Metric.update(delay, p99)
    ])
  })
  const apart = Effect.flatMap(statement(clockDifference(sql)), (millis) => Metric.update(clock, millis / 1_000))
  return Effect.all([own, Effect.ignore(apart), measurePing(ping)])
})

/** Makes an effect that measures one ping. While none is answered, the gauge has the time since the first of them began. */
export const measurePing = <E>(ping: Effect.Effect<void, E>): Effect.Effect<void> => {
  let unansweredSince: number | undefined
  return Effect.clockWith((clock) => {
    const begun = monotonicMillis(clock)
    return Effect.flatMap(Effect.exit(ping), ({ _tag }) => {
      unansweredSince = _tag === "Success" ? undefined : (unansweredSince ?? begun)
      return Metric.update(limiter, (monotonicMillis(clock) - (unansweredSince ?? begun)) / 1_000)
    })
  })
}
