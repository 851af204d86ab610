/** The messages between the benchmark and a round of load. */
import type { CaseName } from "./Cases.ts"

export interface RoundPlan {
  readonly case: CaseName
  readonly url: string
  /** The server's process. */
  readonly pid: number
  /** The file in which the process counts what it promotes. */
  readonly promoted: string
  readonly token: string
  readonly connections: number
  readonly seconds: number
  /** Cursors of the pages that a list reads; null is the first page. */
  readonly cursors: ReadonlyArray<string | null>
}

export interface Round {
  readonly requestsPerSecond: number
  /** Milliseconds. */
  readonly p50: number
  readonly p95: number
  readonly p99: number
  /** CPU time of the server's process per request. */
  readonly cpuMicros: number
  /** Bytes that minor collections move to the old generation for each request. */
  readonly promoted: number
  /** CPU use of the load generator, as a part of one core. Near 1, the load generator was the limit. */
  readonly loadBusy: number
  readonly failures: number
}
