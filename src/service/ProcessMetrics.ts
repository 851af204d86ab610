/** Measures the process: CPU, memory, delays of the event loop, its build, the clock and Redis. */
import { Duration, Effect, Metric } from "effect"
import { SqlClient } from "effect/sql"
import { monitorEventLoopDelay } from "node:perf_hooks"
import manifest from "../../package.json" with { type: "json" }
import { statement } from "../sql/Database.ts"
import { clockDifference } from "../sql/DatabaseClock.ts"
import { RateLimits } from "../http/limits/RateLimits.ts"

export const { version } = manifest

const cpu = Metric.counter("process_cpu_seconds_total", { description: "CPU time of the process", incremental: true })
const memory = Metric.gauge("process_resident_memory_bytes", { description: "Resident memory of the process" })
const heap = Metric.gauge("nodejs_heap_used_bytes", { description: "Memory of the JavaScript heap in use" })
const delay = Metric.gauge("nodejs_eventloop_delay_seconds", {
  description: "Delay of the event loop since the last measurement, p99"
})
const build = Metric.gauge("build_info", { description: "1, by the version of the service and of Node" })
const clock = Metric.gauge("database_clock_difference_seconds", {
  description: "Difference between the clocks of the host and the database"
})
const limiter = Metric.gauge("rate_limiter_ping_seconds", {
  description: "Duration of a decision of the rate limiter, which is that of Redis if REDIS_URL is set"
})

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
  const pinged = Effect.flatMap(Effect.timed(ping), ([duration]) =>
    Metric.update(limiter, Duration.toMillis(duration) / 1_000)
  )
  const apart = Effect.flatMap(statement(clockDifference(sql)), (millis) => Metric.update(clock, millis / 1_000))
  return Effect.all([own, Effect.ignore(apart), Effect.ignore(pinged)])
})
