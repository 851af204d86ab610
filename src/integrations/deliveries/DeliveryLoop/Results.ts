/**
 * The queue of results that are not recorded yet. `separate` prepares them for the statement that records them.
 *
 *   added ──▶ queued ── taken ──▶ in a batch ──▶ recorded
 *               ▲                     ├── the statement failed: kept, first in the queue
 *               └──── with a poll ────┴── another transaction has locked a row: deferred
 */
import type { Claim, Leased } from "./Claim.ts"
import type { Move } from "../States.ts"
import { type Endpoint, keyOf } from "./Visits.ts"

/** Maximum number of results in one statement. */
const longestBatch = 500
/** Outcome of an attempt, or of a lease that is returned. Times are in milliseconds. */
export interface Result extends Pick<
  Claim,
  "projectId" | "installationId" | "id" | "attempt" | "leasedUntil" | "endpointUrl" | "version"
> {
  readonly on: Extract<Move, "succeeded" | "failed" | "exhausted" | "released" | "unsent">
  readonly statusCode: number | null
  readonly errorCode: string | null
  readonly responseBody: string | null
  readonly startedAt: number
  readonly finishedAt: number
  /**
   * Milliseconds until the next attempt. 0 if the schedule has no further attempt. After a 410 the delay is used only if the
   * webhook has another version when the result is recorded.
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
  readonly take: () => ReadonlyArray<Ended>
  /** Puts the results of a failed batch back at the start of the queue. */
  readonly keep: (batch: ReadonlyArray<Ended>) => void
  /** Defers the results whose endpoints are `locked`, and returns the other results of the batch. */
  readonly defer: (batch: ReadonlyArray<Ended>, locked: ReadonlyArray<Endpoint>) => ReadonlyArray<Ended>
  readonly takeDeferred: () => ReadonlyArray<Ended>
  readonly isEmpty: () => boolean
  readonly all: () => ReadonlyArray<Ended>
}

export const make = (): Results => {
  let queued: Array<Ended> = []
  let deferred: Array<Ended> = []

  return {
    add: (ended) => queued.push(ended) === 1,
    take: () => queued.splice(0, longestBatch),
    keep: (batch) => {
      deferred = deferred.filter((ended) => !batch.includes(ended))
      queued = [...batch, ...queued]
    },
    defer: (batch, locked) => {
      if (locked.length === 0) return batch
      const keys = new Set(locked.map(keyOf))
      deferred.push(...batch.filter((ended) => keys.has(keyOf(ended.lease)) && !deferred.includes(ended)))
      return batch.filter(({ lease }) => !keys.has(keyOf(lease)))
    },
    takeDeferred: () => deferred.splice(0, longestBatch),
    isEmpty: () => queued.length === 0,
    all: () => [...queued, ...deferred]
  }
}

/**
 * Splits results into arrays for the statement that records them. Most results are successes. Their values are constant, so the
 * statement gets only the values of other results:
 *
 * - `endpoints` has each endpoint once, with the latest version of its webhook.
 * - `others` has all results except successes with the latest version. `counts` is false for a result of an earlier version: it does not
 *   change the health of the endpoint. A failure has no strikes if a later result of its endpoint is a success.
 * - `places` has, for each result, its place in `others`, starting at 1; 0 if it is not in `others`.
 * - `at` has, for each result, the place of its endpoint in `endpoints`, starting at 1.
 */
export const separate = (results: ReadonlyArray<Result>) => {
  const endpoints = new Map<string, Endpoint & { readonly at: number; version: number; succeeded: boolean }>()
  const found = results.map((result) => {
    const key = keyOf(result)
    let endpoint = endpoints.get(key)
    if (endpoint === undefined) {
      const { installationId, projectId, version } = result
      endpoint = { projectId, installationId, at: endpoints.size + 1, version, succeeded: false }
      endpoints.set(key, endpoint)
    }
    endpoint.version = Math.max(endpoint.version, result.version)
    return { result, endpoint }
  })
  const others: Array<Result & { readonly counts: boolean }> = []
  const places = found
    .toReversed()
    .map(({ endpoint, result }) => {
      const counts = result.version === endpoint.version
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
