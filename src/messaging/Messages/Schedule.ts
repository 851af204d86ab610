/** What follows from the outcome of a call (contract §8): what becomes of the message, and when it is tried again. */
import { Duration, Option } from "effect"
import type { Outcome } from "../Connectors.ts"
import type { Event } from "./States.ts"

/** Before the second attempt, the third, and so on; there is one attempt more than that. */
const backoff = [Duration.seconds(1), Duration.seconds(5), Duration.seconds(30), Duration.minutes(2)]

/** All attempts together. */
export const maxAttempts = backoff.length + 1

/** An attempt that was made. */
export interface Attempted {
  readonly number: number
  /** Whether an earlier attempt may have been processed. */
  readonly inDoubt: boolean
  /** Whether it may be repeated without a second effect. */
  readonly idempotent: boolean
}

/** What the attempt comes to. */
export interface Result {
  readonly on: Event
  readonly providerMessageId: string | null
  readonly errorCode: string | null
  readonly finishedAt: Date
  readonly nextAttemptAt: Date | null
}

export const resultOf = ({ idempotent, inDoubt, number }: Attempted, outcome: Outcome, finishedAt: Date): Result => {
  const delay = Option.fromUndefinedOr(backoff[number - 1])
  const after = (pause: Duration.Duration) => new Date(finishedAt.getTime() + Duration.toMillis(pause))
  const common = { providerMessageId: null, errorCode: null, finishedAt, nextAttemptAt: null }
  switch (outcome._tag) {
    case "accepted":
      return { ...common, on: "accepted", providerMessageId: outcome.providerMessageId }
    case "refused":
      return { ...common, on: "refused", errorCode: outcome.errorCode }
    case "postponed":
      return Option.match(delay, {
        onNone: () => ({ ...common, on: inDoubt ? "exhausted_in_doubt" : "exhausted", errorCode: outcome.errorCode }),
        onSome: (delay) => ({
          ...common,
          on: "postponed",
          errorCode: outcome.errorCode,
          nextAttemptAt: after(
            Duration.max(
              delay,
              Option.getOrElse(outcome.retryAfter, () => Duration.zero)
            )
          )
        })
      })
    case "unknown":
      return {
        ...common,
        on: "unclear",
        errorCode: outcome.errorCode,
        nextAttemptAt: idempotent ? Option.getOrNull(Option.map(delay, after)) : null
      }
  }
}
