/** What follows the outcome of an attempt: the delivery is delivered, dead, or retried after a delay of the retry schedule. */
import { Duration, Option } from "effect"
import type { Claim } from "./DeliveryLoop/Claim.ts"
import type { Result } from "./DeliveryLoop/Results.ts"
import { isSuccess, type Outcome } from "../endpoints/Sender.ts"

/**
 * Strikes of a failed attempt. An endpoint with three strikes is suspect: its attempts use a separate pool of slots. A timeout
 * counts three, because the attempt has held its slot for longest.
 */
const strikesOf = { failure: 1, timeout: 3 }

/** Maximum delay that an endpoint can request by `Retry-After`, in milliseconds. */
const longestRetryAfter = 60 * 60_000

/** Returns the factor by which delays and pauses are multiplied: 0.8 to 1.2. `random` is from 0 to 1. */
const jitter = (random: number): number => 0.8 + 0.4 * random

type Schedule = ReadonlyArray<Duration.Duration>

/** Times of an attempt, in milliseconds. */
interface Times {
  readonly startedAt: number
  readonly finishedAt: number
}

/** Whether the endpoint is gone permanently, so that its webhook is disabled. */
export const isGone = (statusCode: number | null): boolean => statusCode === 410

/** Whether there was no attempt, because this host had no means for a connection. */
export const isUnsent = (outcome: Outcome): boolean => outcome._tag === "failed" && outcome.code === "host_exhausted"

/** `random`, from 0 to 1, gives the jitter of the delay and of a pause. */
export const resultOf = (claim: Claim, outcome: Outcome, times: Times, schedule: Schedule, random: number): Result => {
  if (isUnsent(outcome)) return returnedBy(claim, "unsent", times)
  const answer = outcome._tag === "answered" ? outcome : null
  const result = {
    ...returnedBy(claim, "unsent", times),
    statusCode: answer?.status ?? null,
    errorCode: outcome._tag === "failed" ? outcome.code : null,
    responseBody: answer?.body ?? null,
    jitter: jitter(random)
  }
  if (isSuccess(outcome)) return { ...result, on: "succeeded" }
  const restFor = restOf(outcome)
  const strikes = result.errorCode === "timeout" ? strikesOf.timeout : strikesOf.failure
  const delay = schedule[claim.retries]
  const retryIn = delay === undefined ? 0 : Duration.toMillis(delay) * result.jitter
  const isLast = delay === undefined || isGone(result.statusCode)
  return { ...result, on: isLast ? "exhausted" : "failed", retryIn, restFor, strikes }
}

/** Returns the result of a lease that ends without an outcome. */
export const returnedBy = (
  { attempt, endpointUrl, id, installationId, leasedUntil, projectId, version }: Claim,
  on: "released" | "unsent",
  { finishedAt, startedAt }: Times
): Result => ({
  projectId,
  installationId,
  id,
  attempt,
  leasedUntil,
  endpointUrl,
  version,
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

/** Returns the age at which a delivery expires: the sum of the delays of a retry schedule, without jitter, plus one day. */
export const maxAge = (schedule: Schedule): Duration.Duration => schedule.reduce(Duration.sum, Duration.days(1))

/**
 * Returns the delay that a busy endpoint (status 429 or 503) requests by `Retry-After`, in milliseconds, up to
 * `longestRetryAfter`. 0 if it requests none.
 */
const restOf = (outcome: Outcome): number =>
  outcome._tag === "answered" && (outcome.status === 429 || outcome.status === 503)
    ? Math.min(Option.match(outcome.retryAfter, { onNone: () => 0, onSome: Duration.toMillis }), longestRetryAfter)
    : 0
