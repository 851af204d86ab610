/**
 * A round of load in its own process, so that it shares no event loop with a server. It prints the figures of the time
 * between a short warm-up and the end: autocannon measures the requests, /proc has the server's CPU time.
 */
import autocannon from "autocannon"
import { readFileSync } from "node:fs"
import { cpuMillis } from "../Cpu.ts"
import { quantile } from "../Figures.ts"
import type { Promoted } from "../Promoted.ts"
import { type CaseName, cases, type fields } from "./Cases.ts"

/** The argument of a round. */
export interface RoundPlan {
  readonly case: CaseName
  readonly server: { readonly name: string; readonly pid: number; readonly url: string; readonly promoted?: string }
  readonly token: string
  readonly connections: number
  readonly seconds: number
  /** Cursors of the pages that a list reads; null is the first page. */
  readonly cursors: ReadonlyArray<string | null>
}

export type Round = Readonly<Record<(typeof fields)[number] | "failures", number>>

const warmUp = 500

const plan = (text: string): RoundPlan => JSON.parse(text)
const { case: name, connections, cursors, seconds, server, token } = plan(process.argv[2] ?? "{}")
const { pid, promoted, url } = server

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

const counted = (): Promoted =>
  promoted === undefined ? { bytes: 0, answers: 0 } : JSON.parse(readFileSync(promoted, "utf8"))

const latencies: Array<number> = []

/** Reads the clock and the counters. */
const reading = () => ({
  at: performance.now(),
  cpu: cpuMillis(pid),
  own: process.cpuUsage(),
  sent: latencies.length,
  ...counted()
})
let [before, after] = [reading(), reading()]

const run = autocannon(
  { url, connections, duration: seconds + warmUp / 1000, setupClient: (client) => client.setRequests(requests()) },
  (error, result) => {
    if (error !== null) throw error
    const millis = after.at - before.at
    const measured = latencies.slice(before.sent, after.sent)
    const round: Round = {
      requestsPerSecond: (measured.length * 1000) / millis,
      p50: quantile(measured, 0.5),
      p95: quantile(measured, 0.95),
      p99: quantile(measured, 0.99),
      cpuMicros: ((after.cpu - before.cpu) * 1000) / measured.length,
      promoted: (after.bytes - before.bytes) / (after.answers - before.answers),
      loadBusy: (after.own.user + after.own.system - before.own.user - before.own.system) / 1000 / millis,
      failures: result.errors + result.timeouts + result.non2xx + result.resets
    }
    process.stdout.write(JSON.stringify(round))
  }
)
run.on("response", (_, _status, _size, millis) => latencies.push(millis))
setTimeout(() => {
  before = reading()
  setTimeout(() => (after = reading()), seconds * 1000)
}, warmUp)
