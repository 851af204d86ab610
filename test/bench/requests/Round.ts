/** What the bench tells a round of load, and what the round tells the bench. */
import type { Stock } from "./Case.ts"
import type { CaseName } from "./Cases.ts"

export interface RoundPlan {
  readonly case: CaseName
  readonly url: string
  /** The server's process. */
  readonly pid: number
  readonly token: string
  readonly connections: number
  readonly seconds: number
  readonly stock: Stock
}

export interface Round {
  readonly requestsPerSecond: number
  /** Milliseconds. */
  readonly p50: number
  readonly p95: number
  readonly p99: number
  /** CPU time of the server's process per request. */
  readonly cpuMicros: number
  /** How busy the load itself was, of one core: near 1 it is what was measured. */
  readonly loadBusy: number
  /** Of an answer, headers included. */
  readonly bytes: number
  readonly failures: number
}
