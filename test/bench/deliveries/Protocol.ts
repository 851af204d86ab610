/** The messages between the benchmark and its processes. */

/** The first message to the receiver. */
export interface ReceiverPlan {
  /** It has so many endpoints that answer, each on a port of its own as real ones are hosts of their own. */
  readonly endpoints: number
  /** The secret that verifies signatures. */
  readonly secret: string
}

/** The URLs of the receiver's endpoints. */
export interface Ports {
  readonly answering: ReadonlyArray<number>
  readonly hanging: number
}

/** The arrivals since the last reset of the receiver; times are in milliseconds since 1970. */
export interface Arrived {
  /** Deliveries by their ids, however often each came. */
  readonly count: number
  readonly first: number
  readonly last: number
  /** Deliveries that came once more. */
  readonly repeats: number
  /** Signatures that were checked, a sample, and those that did not hold. */
  readonly checked: number
  readonly forged: number
}

/** When each delivery was first seen, by its id. */
export type Arrivals = ReadonlyArray<readonly [id: string, at: number]>

/** A job of an opponent: where it goes, under which id, and what is said there. */
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
