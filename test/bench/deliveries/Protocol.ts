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

/** The arrivals since the last reset of the receiver; times are in milliseconds since 1970. */
export interface Arrived {
  /** Number of distinct deliveries. */
  readonly count: number
  readonly first: number
  readonly last: number
  /** Arrivals of deliveries that had already arrived. */
  readonly repeats: number
  /** Checked signatures, a sample; `forged` counts the invalid ones. */
  readonly checked: number
  readonly forged: number
}

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
