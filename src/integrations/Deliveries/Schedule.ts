/** Results of attempts by their outcome (contract §10): the next state of the delivery and the time of the next attempt. */
import { Duration, Option } from "effect"
import { isSuccess, type Outcome } from "../Sender.ts"
import type { Claim } from "./Claim.ts"
import { jitter, longestRetryAfter, strikesOf } from "./Health.ts"
import type { Result } from "./Record.ts"

/** Whether the endpoint is gone permanently, so that its webhook is disabled. */
export const isGone = (outcome: Outcome): boolean => outcome._tag === "answered" && outcome.status === 410

/** Returns the result of an attempt. Times are in milliseconds; `random` is from 0 to 1. */
export const resultOf = (
  { attempt, endpointUrl, id, installationId, leasedUntil, projectId, retries }: Claim,
  outcome: Outcome,
  times: { readonly startedAt: number; readonly finishedAt: number },
  schedule: ReadonlyArray<Duration.Duration>,
  random: number
): Result => {
  const common = {
    projectId,
    installationId,
    id,
    attempt,
    leasedUntil,
    endpointUrl,
    statusCode: outcome._tag === "answered" ? outcome.status : null,
    errorCode: outcome._tag === "failed" ? outcome.code : null,
    responseBody: outcome._tag === "answered" ? outcome.body : null,
    startedAt: times.startedAt,
    finishedAt: times.finishedAt,
    jitter: jitter(random)
  }
  if (isSuccess(outcome)) return { ...common, on: "succeeded", retryIn: 0, restFor: 0, strikes: 0 }
  const restFor = restOf(outcome)
  const strikes = common.errorCode === "timeout" ? strikesOf.timeout : strikesOf.failure
  const delay = schedule[retries]
  if (delay === undefined || isGone(outcome)) return { ...common, on: "exhausted", retryIn: 0, restFor, strikes }
  const retryIn = Math.max(restFor, Duration.toMillis(delay) * common.jitter)
  return { ...common, on: "failed", retryIn, restFor, strikes }
}

/** Returns the result of a lease that is returned without an outcome. Times are in milliseconds. */
export const returnedBy = (
  { attempt, endpointUrl, id, installationId, leasedUntil, projectId }: Claim,
  on: "released" | "unsent",
  times: { readonly startedAt: number; readonly finishedAt: number }
): Result => ({
  projectId,
  installationId,
  id,
  attempt,
  leasedUntil,
  endpointUrl,
  on,
  statusCode: null,
  errorCode: "interrupted",
  responseBody: null,
  startedAt: times.startedAt,
  finishedAt: times.finishedAt,
  retryIn: 0,
  restFor: 0,
  strikes: 0,
  jitter: 1
})

/** Sum of the longest delays of a retry schedule and of a day: the age at which a delivery expires. */
export const maxAge = (schedule: ReadonlyArray<Duration.Duration>): Duration.Duration =>
  schedule.reduce(Duration.sum, Duration.days(1))

/** Delay that a busy endpoint requests by `Retry-After`, in milliseconds. */
const restOf = (outcome: Outcome): number =>
  outcome._tag === "answered" && (outcome.status === 429 || outcome.status === 503)
    ? Math.min(Option.match(outcome.retryAfter, { onNone: () => 0, onSome: Duration.toMillis }), longestRetryAfter)
    : 0
