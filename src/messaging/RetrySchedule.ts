/** What follows from the outcome of a provider call (contract §8): the move of the message, and the delay until the next attempt. */
import { Duration, Option } from "effect"
import type { Outcome } from "./providers/Outcomes.ts"
import type { Move } from "./Messages/States.ts"

/** Delays before the second attempt, the third, and so on. */
const backoff = [Duration.seconds(1), Duration.seconds(5), Duration.seconds(30), Duration.minutes(2)]

/** Maximum number of attempts. */
export const maxAttempts = backoff.length + 1

/** A finished attempt. */
interface Attempted {
  readonly number: number
  /** Whether an earlier attempt may have been processed. */
  readonly inDoubt: boolean
  /** Whether it can be repeated without a second effect. */
  readonly idempotent: boolean
  /** The campaign of the message; null for a message of a conversation. */
  readonly campaignId: string | null
}

/** Result of an attempt. */
export interface Result {
  readonly on: Exclude<Move, `given_up${string}` | `settled_${string}`>
  readonly providerMessageId: string | null
  readonly errorCode: string | null
  /** Milliseconds until the next attempt; null where there is none. */
  readonly delayMillis: number | null
}

/** Outcomes of attempts whose provider was not called. */
const uncalled = new Set(["circuit_open", "interrupted"])

/** No recipient of a campaign fails without a call: after the last attempt, one that was not called has the longest delay again. */
export const resultOf = ({ campaignId, idempotent, inDoubt, number }: Attempted, outcome: Outcome): Result => {
  const isUncalled = outcome._tag === "postponed" && uncalled.has(outcome.errorCode)
  const next = backoff[number - 1] ?? (isUncalled && campaignId !== null ? backoff.at(-1) : undefined)
  const delay = Option.map(Option.fromUndefinedOr(next), Duration.toMillis)
  const common = { providerMessageId: null, errorCode: null, delayMillis: null }
  switch (outcome._tag) {
    case "accepted":
      return { ...common, on: "accepted", providerMessageId: outcome.providerMessageId }
    case "refused":
      return { ...common, on: "refused", errorCode: outcome.errorCode }
    case "postponed":
      return Option.match(delay, {
        onNone: () => ({ ...common, on: inDoubt ? "exhausted_in_doubt" : "exhausted", errorCode: outcome.errorCode }),
        onSome: (delay) => {
          const requested = Option.getOrElse(Option.map(outcome.retryAfter, Duration.toMillis), () => 0)
          return { ...common, on: "postponed", errorCode: outcome.errorCode, delayMillis: Math.max(delay, requested) }
        }
      })
    case "unknown":
      return {
        ...common,
        on: "unclear",
        errorCode: outcome.errorCode,
        delayMillis: idempotent ? Option.getOrNull(delay) : null
      }
  }
}
