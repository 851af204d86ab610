/**
 * What follows the outcome of a provider call (contract §8): the move (change of state) of the message, and the delay of the
 * next attempt.
 */
import { Duration, Option } from "effect"
import type { ProviderType } from "../api/messaging/Messaging.ts"
import { isIdempotent } from "./providers/Connectors.ts"
import type { Outcome } from "./providers/Outcomes.ts"
import type { Move } from "./Messages/States.ts"

/** Delays before the second attempt and later ones. */
const backoff = [Duration.seconds(1), Duration.seconds(5), Duration.seconds(30), Duration.minutes(2)]

interface Attempted {
  readonly number: number
  /** Whether an earlier attempt may have been processed. */
  readonly inDoubt: boolean
  readonly providerType: ProviderType
  /** Null for a message of a conversation. */
  readonly campaignId: string | null
  /** For a message of a campaign: number of earlier attempts without a call. */
  readonly uncalled?: number
}

export interface Result {
  readonly on: Exclude<Move, `given_up${string}` | `settled_${string}`>
  readonly providerMessageId: string | null
  readonly errorCode: string | null
  /** Milliseconds until the next attempt; null if there is none. */
  readonly delayMillis: number | null
}

/** Error codes of attempts without a call: the circuit was open, the process ended, or no key opened the channel's config. */
export const uncalled = ["circuit_open", "interrupted", "config_unreadable"]

/** Returns the result of an attempt. In a campaign, an attempt without a call is repeated, and does not count as an attempt. */
export const resultOf = (attempt: Attempted, outcome: Outcome): Result => {
  const { campaignId, inDoubt, number, providerType } = attempt
  const isRepeated = campaignId !== null && outcome._tag === "postponed" && uncalled.includes(outcome.errorCode)
  const next = isRepeated ? (backoff[number - 1] ?? backoff.at(-1)) : backoff[number - 1 - (attempt.uncalled ?? 0)]
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
        delayMillis: isIdempotent(providerType) ? Option.getOrNull(delay) : null
      }
  }
}
