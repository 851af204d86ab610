/**
 * A round of load in its own process, so that it shares no event loop with a server. It prints the figures of the time
 * between a short warm-up and the end: autocannon measures the requests, /proc has the server's CPU time.
 */
import autocannon from "autocannon"
import { readFileSync } from "node:fs"
import { cpuMillis } from "../Cpu.ts"
import { quantile } from "../Figures.ts"
import type { Promoted } from "../Promoted.ts"
import { cases } from "./Cases.ts"
import type { Round, RoundPlan } from "./Round.ts"

const warmUp = 500

const plan = (text: string): RoundPlan => JSON.parse(text)
const { case: name, connections, cursors, pid, promoted, seconds, token, url } = plan(process.argv[2] ?? "{}")

const withToken = (request: autocannon.Request): autocannon.Request => ({
  ...request,
  headers: { ...request.headers, authorization: `Bearer ${token}` }
})

/** Returns the requests of one connection. Requests that never change are serialized once. */
const requests = (): ReadonlyArray<autocannon.Request> => {
  const traffic = cases[name].traffic(cursors)
  return typeof traffic === "function"
    ? [{ setupRequest: (request) => withToken({ ...request, ...traffic() }) }]
    : traffic.map(withToken)
}

const counted = (): Promoted => JSON.parse(readFileSync(promoted, "utf8"))

const latencies: Array<number> = []
let measuring = false
let cpu = 0
let from = 0
let millis = 0
let before = counted()
let after = before
let own = process.cpuUsage()

const run = autocannon(
  {
    url,
    connections,
    duration: seconds + warmUp / 1000,
    setupClient: (client) => client.setRequests(requests())
  },
  (error, result) => {
    if (error !== null) throw error
    const round: Round = {
      requestsPerSecond: (latencies.length * 1000) / millis,
      p50: quantile(latencies, 0.5),
      p95: quantile(latencies, 0.95),
      p99: quantile(latencies, 0.99),
      cpuMicros: (cpu * 1000) / latencies.length,
      promoted: (after.bytes - before.bytes) / (after.answers - before.answers),
      loadBusy: (own.user + own.system) / 1000 / millis,
      failures: result.errors + result.timeouts + result.non2xx + result.resets
    }
    process.stdout.write(JSON.stringify(round))
  }
)
run.on("response", (_, _status, _size, time) => {
  if (measuring) latencies.push(time)
})
setTimeout(() => {
  measuring = true
  before = counted()
  from = performance.now()
  cpu = cpuMillis(pid)
  own = process.cpuUsage()
  setTimeout(() => {
    measuring = false
    after = counted()
    cpu = cpuMillis(pid) - cpu
    own = process.cpuUsage(own)
    millis = performance.now() - from
  }, seconds * 1000)
}, warmUp)
