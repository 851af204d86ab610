/**
 * The queue of results that are not recorded yet. `separate` prepares them for the statement that records them.
 *
 *   added ──▶ queued ── taken ──▶ in a batch ──▶ recorded
 *               ▲                     ├── the statement failed: kept, first in the queue
 *               └── held long enough ─┴── the row of the endpoint is locked: held
 */
import { Duration } from "effect"
import type { Claim, Leased } from "./Claim.ts"
import type { Move } from "../States.ts"
import { type Endpoint, keyOf } from "./Visits.ts"

/** Maximum number of results in one statement. */
const longestBatch = 500
/**
 * Pause before the next try to record held results. It doubles with each try, from `first` to `longest`. Once no result is held,
 * it is `first` again.
 */
const holdFor = { first: Duration.toNanosUnsafe("25 millis"), longest: Duration.toNanosUnsafe("1 second") }

/** Outcome of an attempt, or of a lease that is returned. Times are in milliseconds. */
export interface Result extends Pick<
  Claim,
  "projectId" | "installationId" | "id" | "attempt" | "leasedUntil" | "endpointUrl" | "urlVersion"
> {
  readonly on: Extract<Move, "succeeded" | "failed" | "exhausted" | "released" | "unsent">
  readonly statusCode: number | null
  readonly errorCode: string | null
  readonly responseBody: string | null
  readonly startedAt: number
  readonly finishedAt: number
  /**
   * Milliseconds until the next attempt. 0 if the schedule has no further attempt. After a 410 the delay is used only if the
   * webhook has a new URL when the result is recorded.
   */
  readonly retryIn: number
  /** Delay that the endpoint has requested by `Retry-After`, in milliseconds. */
  readonly restFor: number
  /** Strikes of a failed attempt; otherwise 0. Three strikes make an endpoint suspect. */
  readonly strikes: number
  /** The factor by which the pause of the endpoint is multiplied, if this result begins a pause. */
  readonly jitter: number
}

export interface Ended {
  readonly lease: Leased
  readonly result: Result
}

export interface Results {
  /** Adds a result. Returns whether the queue was empty before. */
  readonly add: (ended: Ended) => boolean
  /** Queues results that were held long enough, and takes the next batch. Times are monotonic, in nanoseconds. */
  readonly take: (now: bigint) => ReadonlyArray<Ended>
  /** Puts the results of a failed batch, except for held ones, back at the start of the queue. */
  readonly keep: (batch: ReadonlyArray<Ended>) => void
  /** Holds the results whose endpoints are `locked`, and returns the other results of the batch. */
  readonly hold: (batch: ReadonlyArray<Ended>, locked: ReadonlySet<string>, now: bigint) => ReadonlyArray<Ended>
  readonly isHeld: (ended: Ended) => boolean
  readonly isEmpty: () => boolean
  /** Time of the next try to record held results; undefined if none are held. */
  readonly heldUntil: () => bigint | undefined
  readonly all: () => ReadonlyArray<Ended>
}

export const make = (): Results => {
  let queued: Array<Ended> = []
  let held: Array<Ended> = []
  let pause = holdFor.first
  let until = 0n

  return {
    add: (ended) => queued.push(ended) === 1,
    take: (now) => {
      if (held.length === 0) pause = holdFor.first
      else if (now >= until) {
        queued = [...queued, ...held]
        held = []
      }
      const batch = queued.slice(0, longestBatch)
      queued = queued.slice(longestBatch)
      return batch
    },
    keep: (batch) => {
      queued = [...batch.filter((ended) => !held.includes(ended)), ...queued]
    },
    hold: (batch, locked, now) => {
      if (locked.size === 0) return batch
      const isLocked = ({ lease }: Ended) => locked.has(keyOf(lease))
      // The pause starts with the first held result. Later ones do not prolong it.
      if (held.length === 0) {
        until = now + pause
        pause = pause * 2n < holdFor.longest ? pause * 2n : holdFor.longest
      }
      held.push(...batch.filter(isLocked))
      return batch.filter((ended) => !isLocked(ended))
    },
    isHeld: (ended) => held.includes(ended),
    isEmpty: () => queued.length === 0,
    heldUntil: () => (held.length === 0 ? undefined : until),
    all: () => [...queued, ...held]
  }
}

/**
 * Splits results into arrays for the statement that records them. Most results are successes. Their values are constant, so the
 * statement gets only the values of other results:
 *
 * - `endpoints` has each endpoint once, with the latest version of its URL.
 * - `others` has all results except successes for the latest URL. `counts` is false for a result for an earlier URL: it does not
 *   change the health of the endpoint. A failure has no strikes if a later result of its endpoint is a success.
 * - `places` has, for each result, its place in `others`, starting at 1; 0 if it is not in `others`.
 * - `at` has, for each result, the place of its endpoint in `endpoints`, starting at 1.
 */
export const separate = (results: ReadonlyArray<Result>) => {
  const endpoints = new Map<string, Endpoint & { readonly at: number; urlVersion: number; succeeded: boolean }>()
  const found = results.map((result) => {
    const key = keyOf(result)
    let endpoint = endpoints.get(key)
    if (endpoint === undefined) {
      const { installationId, projectId, urlVersion } = result
      endpoint = { projectId, installationId, at: endpoints.size + 1, urlVersion, succeeded: false }
      endpoints.set(key, endpoint)
    }
    endpoint.urlVersion = Math.max(endpoint.urlVersion, result.urlVersion)
    return { result, endpoint }
  })
  const others: Array<Result & { readonly counts: boolean }> = []
  const places = found
    .toReversed()
    .map(({ endpoint, result }) => {
      const counts = result.urlVersion === endpoint.urlVersion
      if (counts && result.on === "succeeded") {
        endpoint.succeeded = true
        return 0
      }
      return others.push({ ...result, counts, strikes: endpoint.succeeded ? 0 : result.strikes })
    })
    .toReversed()
  return { endpoints: [...endpoints.values()], others, places, at: found.map(({ endpoint }) => endpoint.at) }
}
export type Separated = ReturnType<typeof separate>
