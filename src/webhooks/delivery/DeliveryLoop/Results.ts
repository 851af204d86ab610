/**
 * What follows the outcome of an attempt: its result (the delivery is delivered, dead, or retried after a delay of the retry schedule), the
 * queue of results that are not recorded yet, and the entry of the attempt log. `separate` prepares results for the statement that records
 * them.
 *
 *   added ──▶ queued ── taken ──▶ in a batch ──▶ recorded
 *               ▲                     ├── the statement failed: kept, first in the queue
 *               └──── with a poll ────┴── another transaction has locked a row: deferred
 */
import { Duration, Option } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import type { Leased } from "./Claim.ts"
import type { Move } from "../States.ts"
import {
  type Endpoint,
  isGone,
  jitter,
  keyOf,
  longestRetryAfter,
  type RetrySchedule,
  strikesOf
} from "../../Endpoint.ts"
import { formatInstant } from "../../../sql/Times.ts"
import { isSuccess, type Outcome } from "../../address/Sender.ts"

/** Maximum number of results in one statement. */
const longestBatch = 500
/** Outcome of an attempt, or of a lease that is returned. Times are in milliseconds. */
export interface Result {
  readonly lease: Leased
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
  /** Strikes of a failed attempt; otherwise 0. `strikesToSuspect` make an endpoint suspect. */
  readonly strikes: number
  /** The factor by which the pause of the endpoint is multiplied, if this result begins a pause. */
  readonly jitter: number
}

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

/** A delivery keeps this many of its newest attempts, and the `responseBody` of fewer. */
const keptAttempts = 30
const keptBodies = 5

/** The entry of an attempt, as a JSON array. If the log is empty, PostgreSQL stores this array without copying it. */
export const entryOf = ({
  errorCode,
  finishedAt,
  lease: { attempt, endpointUrl },
  responseBody,
  startedAt,
  statusCode
}: Result): string =>
  `[{"number":${attempt},"startedAt":"${formatInstant(startedAt)}","finishedAt":"${formatInstant(finishedAt)}",` +
  `"statusCode":${statusCode},"errorCode":${JSON.stringify(errorCode)},"durationMs":${finishedAt - startedAt},"endpointUrl":${JSON.stringify(endpointUrl)}` +
  (responseBody === null ? "}]" : `,"responseBody":${JSON.stringify(responseBody)}}]`)

/** An SQL expression over `deliveries`: the attempt log with one more entry (jsonb), cut to its bounds. The oldest come first. */
export const logWith = (sql: SqlClient.SqlClient, entry: Statement.Fragment) => {
  const [attempts, bodies] = [sql.literal(String(keptAttempts)), sql.literal(String(keptBodies))]
  return sql`CASE
    WHEN jsonb_array_length(attempt_log) < ${bodies} THEN attempt_log || ${entry}
    ELSE (
      SELECT jsonb_agg(CASE WHEN age < ${bodies} THEN attempt ELSE attempt - 'responseBody' END)
      FROM jsonb_array_elements(attempt_log || ${entry}) WITH ORDINALITY AS logged (attempt, place), LATERAL (
        SELECT jsonb_array_length(attempt_log) + 1 - place AS age
      ) AS aged WHERE age < ${attempts}
    )
  END`
}

/** Times of an attempt, in milliseconds. */
interface Times {
  readonly startedAt: number
  readonly finishedAt: number
}

/** Whether there was no attempt, because this host had no means for a connection. */
export const isUnsent = (outcome: Outcome): boolean => outcome._tag === "failed" && outcome.code === "host_exhausted"

/** `random`, from 0 to 1, gives the jitter of the delay and of a pause. */
export const resultOf = (
  lease: Leased,
  outcome: Outcome,
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
export const returnedBy = (lease: Leased, on: "released" | "unsent", { finishedAt, startedAt }: Times): Result => ({
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
const restOf = (outcome: Outcome): number =>
  outcome._tag === "answered" && (outcome.status === 429 || outcome.status === 503)
    ? Math.min(Option.match(outcome.retryAfter, { onNone: () => 0, onSome: Duration.toMillis }), longestRetryAfter)
    : 0
