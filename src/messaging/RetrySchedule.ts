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
  /** Number of earlier attempts without a call. */
  readonly uncalled?: number
  /** Milliseconds since the message was created. */
  readonly ageMillis?: number
}

export interface Result {
  readonly on: Exclude<Move, `given_up${string}` | `settled_${string}`>
  readonly providerMessageId: string | null
  readonly errorCode: string | null
  /** What the provider answered instead of accepting, for operators. */
  readonly reason?: string | undefined
  /** Milliseconds until the next attempt; null if there is none. */
  readonly delayMillis: number | null
}

/** Error codes of attempts without a call: the circuit was open, the process ended, no key opened the channel's config, or this host had no connection. */
export const uncalled = ["circuit_open", "interrupted", "config_unreadable", "host_exhausted"]

/** Maximum time for which a message waits while its provider can't be called. */
export const longestWait = Duration.hours(24)

/** Returns the delay before the next attempt. An attempt without a call does not count, and is repeated until `longestWait`. */
const nextAfter = ({ ageMillis = 0, number, uncalled: earlier = 0 }: Attempted, outcome: Outcome) => {
  if (outcome._tag !== "postponed" || !uncalled.includes(outcome.errorCode)) return backoff[number - 1 - earlier]
  return ageMillis < Duration.toMillis(longestWait) ? (backoff[number - 1] ?? backoff.at(-1)) : undefined
}

/** Returns the result of an attempt. */
export const resultOf = (attempt: Attempted, outcome: Outcome): Result => {
  const { inDoubt, providerType } = attempt
  const next = nextAfter(attempt, outcome)
  const delay = Option.map(Option.fromUndefinedOr(next), Duration.toMillis)
  const reason = outcome._tag === "accepted" ? undefined : outcome.reason
  const common = { providerMessageId: null, errorCode: null, reason, delayMillis: null }
  switch (outcome._tag) {
    case "accepted":
      return { ...common, on: "accepted", providerMessageId: outcome.providerMessageId }
    case "refused":
      return { ...common, on: inDoubt ? "ended_in_doubt" : "refused", errorCode: outcome.errorCode }
    case "postponed":
      return Option.match(delay, {
        onNone: () => ({ ...common, on: inDoubt ? "ended_in_doubt" : "exhausted", errorCode: outcome.errorCode }),
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
