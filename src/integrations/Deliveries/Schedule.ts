/** What follows from the outcome of an attempt (contract §10): what becomes of the delivery, and when it is tried again. */
import { Duration, Option } from "effect"
import { isSuccess, type Outcome } from "../Sender.ts"
import type { Claim } from "./Claims.ts"
import { longestRetryAfter, spread } from "./Health.ts"
import type { Result } from "./Results.ts"

/** When the attempt was made. */
export interface Span {
  readonly startedAt: Date
  readonly finishedAt: Date
}

/** An endpoint that says so is gone for good: its webhook is disabled. */
export const isGone = (outcome: Outcome): boolean => outcome._tag === "answered" && outcome.status === 410

/** `random` is from 0 to 1. */
export const resultOf = (
  claim: Claim,
  outcome: Outcome,
  { finishedAt, startedAt }: Span,
  schedule: ReadonlyArray<Duration.Duration>,
  random: number
): Result => {
  const { attempt, id, installationId, projectId } = claim
  const status = outcome._tag === "answered" ? outcome.status : null
  const factor = spread(random)
  const common = {
    projectId,
    installationId,
    id,
    attempt,
    statusCode: status,
    errorCode: outcome._tag === "failed" ? outcome.code : null,
    startedAt,
    finishedAt,
    spread: factor
  }
  if (isSuccess(outcome)) {
    return { ...common, on: "succeeded", availableAt: null, restUntil: null }
  }
  const rest = restOf(outcome)
  const restUntil = rest === 0 ? null : new Date(finishedAt.getTime() + rest)
  const delay = schedule[claim.retries]
  if (delay === undefined || isGone(outcome)) return { ...common, on: "exhausted", availableAt: null, restUntil }
  const pause = Math.max(rest, Duration.toMillis(delay) * factor)
  return { ...common, on: "failed", availableAt: new Date(finishedAt.getTime() + pause), restUntil }
}

/** How long an endpoint that is too busy asks to be left alone, in milliseconds. */
const restOf = (outcome: Outcome): number =>
  outcome._tag === "answered" && (outcome.status === 429 || outcome.status === 503)
    ? Math.min(Option.match(outcome.retryAfter, { onNone: () => 0, onSome: Duration.toMillis }), longestRetryAfter)
    : 0
