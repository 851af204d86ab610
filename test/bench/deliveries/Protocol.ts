/** The messages between the benchmark and its processes. */
import type { Effect } from "effect"
import type { SqlError } from "effect/sql"
import type { BenchFailed } from "../Stage.ts"
import type { Work } from "./Work.ts"

/** The first message to the receiver. */
export interface ReceiverPlan {
  /** Number of endpoints that answer, each on its own port as real ones are different hosts. */
  readonly endpoints: number
  /** The secret that verifies signatures. */
  readonly secret: string
}

/** The arrivals since the last reset of the receiver. */
export interface Arrived {
  /** Number of distinct deliveries. */
  readonly count: number
  /** Time of the first, in milliseconds since 1970. */
  readonly first: number
  /** Number of invalid signatures in a sample. */
  readonly forged: number
}

/** Quantiles of the time from a call to the arrival of its event, in milliseconds. */
export interface Lag {
  readonly p50: number
  readonly p95: number
}

/** Returns the `traceparent` of a call: its trace id is the time, which the receiver reads from the delivery of the event. */
export const traceparentNow = () => `00-${process.hrtime.bigint().toString(16).padStart(32, "0")}-b7ad6b7169203331-01`

/** Returns the milliseconds since the call of a `traceparent`. The clock is the same in all processes of the machine. */
export const millisSince = (traceparent: string) =>
  Number(process.hrtime.bigint() - BigInt(`0x${traceparent.slice(3, 35)}`)) / 1_000_000

/** A job of an opponent: URL, id and event. */
export interface Job {
  readonly id: string
  readonly url: string
  readonly traceparent: string
  readonly event: {
    readonly id: string
    readonly type: string
    readonly timestamp: string
    readonly projectId: string
    readonly installationId: string
    readonly data: unknown
  }
}

/** A system that makes deliveries, with its own process and database. */
export interface Contender {
  readonly name: string
  readonly pid: number
  /** Adds all of the work at once. */
  readonly give: (work: ReadonlyArray<Work>) => Effect.Effect<void, SqlError.SqlError | BenchFailed>
  /** Whether all of the added work is recorded as done. */
  readonly done: Effect.Effect<boolean, SqlError.SqlError | BenchFailed>
}
