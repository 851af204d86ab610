/**
 * What follows the outcome of an attempt: its result (the delivery is delivered, dead, or retried after a delay of the retry schedule), and
 * the queue of results that are not recorded yet. `separate` prepares results for the statement that records them.
 *
 *   added ──▶ queued ── taken ──▶ in a batch ──▶ recorded
 *               ▲                     ├── the statement failed: kept, first in the queue
 *               └──── with a poll ────┴── another transaction has locked a row: deferred
 */
import { Duration, Option } from "effect"
import type { Lease, Result } from "../Attempt.ts"
import {
  type Endpoint,
  isGone,
  jitter,
  keyOf,
  longestRetryAfter,
  type RetrySchedule,
  strikesOf
} from "../../Endpoint.ts"
import { isSuccess, type AttemptOutcome } from "../../address/Sender.ts"

/** Maximum number of results in one statement. */
const longestBatch = 500
export interface Results {
  /** Adds a result. Returns whether the queue was empty before. */
  readonly add: (result: Result) => boolean
  readonly take: () => ReadonlyArray<Result>
  /** Puts the results of a failed batch back at the start of the queue. */
  readonly keep: (batch: ReadonlyArray<Result>) => void
  /** Defers the results whose endpoints are `locked`, and returns the other results of the batch. */
  readonly defer: (batch: ReadonlyArray<Result>, locked: ReadonlyArray<Endpoint>) => ReadonlyArray<Result>
  readonly takeDeferred: () => ReadonlyArray<Result>
  readonly isEmpty: () => boolean
  readonly all: () => ReadonlyArray<Result>
}

export const make = (): Results => {
  let queued: Array<Result> = []
  let deferred: Array<Result> = []

  return {
    add: (result) => queued.push(result) === 1,
    take: () => queued.splice(0, longestBatch),
    keep: (batch) => {
      deferred = deferred.filter((result) => !batch.includes(result))
      queued = [...batch, ...queued]
    },
    defer: (batch, locked) => {
      if (locked.length === 0) return batch
      const keys = new Set(locked.map(keyOf))
      deferred.push(...batch.filter((result) => keys.has(keyOf(result.lease)) && !deferred.includes(result)))
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
 *   change the health of the endpoint.
 * - `places` has, for each result, its place in `others`, starting at 1; 0 if it is not in `others`.
 * - `at` has, for each result, the place of its endpoint in `endpoints`, starting at 1.
 */
export const separate = (results: ReadonlyArray<Result>) => {
  const endpoints = new Map<string, Endpoint & { readonly at: number; version: number }>()
  const found = results.map((result) => {
    const key = keyOf(result.lease)
    let endpoint = endpoints.get(key)
    if (endpoint === undefined) {
      const { installationId, projectId, version } = result.lease
      endpoint = { projectId, installationId, at: endpoints.size + 1, version }
      endpoints.set(key, endpoint)
    }
    endpoint.version = Math.max(endpoint.version, result.lease.version)
    return { result, endpoint }
  })
  const others: Array<Result & { readonly counts: boolean }> = []
  const places = found.map(({ endpoint, result }) => {
    const counts = result.lease.version === endpoint.version
    return counts && result.on === "succeeded" ? 0 : others.push({ ...result, counts })
  })
  return { endpoints: [...endpoints.values()], others, places, at: found.map(({ endpoint }) => endpoint.at) }
}
export type Separated = ReturnType<typeof separate>

/** Times of an attempt, in milliseconds. */
interface Times {
  readonly startedAt: number
  readonly finishedAt: number
}

/** Whether there was no attempt, because this host had no means for a connection. */
export const isUnsent = (outcome: AttemptOutcome): boolean =>
  outcome._tag === "failed" && outcome.code === "host_exhausted"

/** `random`, from 0 to 1, gives the jitter of the delay and of a pause. */
export const resultOf = (
  lease: Lease,
  outcome: AttemptOutcome,
  times: Times,
  schedule: RetrySchedule,
  random: number
): Result => {
  if (isUnsent(outcome)) return returnedBy(lease, "unsent", times)
  const answer = outcome._tag === "answered" ? outcome : null
  const errorCode = outcome._tag === "failed" ? outcome.code : null
  const hasSucceeded = isSuccess(outcome)
  const delay = hasSucceeded ? undefined : schedule[lease.retries]
  const factor = jitter(random)
  return {
    lease,
    on: hasSucceeded ? "succeeded" : delay === undefined || isGone(answer?.status ?? null) ? "exhausted" : "failed",
    statusCode: answer?.status ?? null,
    errorCode,
    responseBody: answer?.body ?? null,
    startedAt: times.startedAt,
    finishedAt: times.finishedAt,
    retryIn: delay === undefined ? 0 : Duration.toMillis(delay) * factor,
    restFor: hasSucceeded ? 0 : restOf(outcome),
    strikes: hasSucceeded ? 0 : errorCode === "timeout" ? strikesOf.timeout : strikesOf.failure,
    jitter: factor
  }
}

/** Returns the result of a lease that ends without an outcome. */
export const returnedBy = (lease: Lease, on: "released" | "unsent", { finishedAt, startedAt }: Times): Result => ({
  lease,
  on,
  statusCode: null,
  errorCode: "interrupted",
  responseBody: null,
  startedAt,
  finishedAt,
  retryIn: 0,
  restFor: 0,
  strikes: 0,
  jitter: 1
})

/**
 * Returns the delay that a busy endpoint (status 429 or 503) requests by `Retry-After`, in milliseconds, up to
 * `longestRetryAfter`. 0 if it requests none.
 */
const restOf = (outcome: AttemptOutcome): number =>
  outcome._tag === "answered" && (outcome.status === 429 || outcome.status === 503)
    ? Math.min(Option.match(outcome.retryAfter, { onNone: () => 0, onSome: Duration.toMillis }), longestRetryAfter)
    : 0
