/**
 * The states of a message and the moves between them (contract §8), as data; and what follows the outcome of a provider call: the move,
 * and the delay of the next attempt.
 *
 *   pending ──▶ sent, failed        the first attempt has an outcome
 *      │
 *      ├──▶ retrying ──▶ …          no attempt was processed; another follows
 *      └──▶ unknown ──▶ …           an attempt may have been processed. Another follows only over a provider with
 *                                   idempotency keys; otherwise the message stays unknown until an operator settles it
 *
 * An attempt in flight does not change the state. `attempts` is the fencing token of its lease: only the result of the latest
 * attempt is recorded, and only while this attempt is in flight.
 */
import { Duration, Option } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import {
  type AttemptStatus,
  type MessageStatus,
  messageStatuses,
  type ProviderType
} from "../../api/messaging/Messaging.ts"
import { machine, startsOf, targetOf } from "../../api/schema/States.ts"
import { isIdempotent } from "../providers/Connectors.ts"
import type { Outcome } from "../providers/Connectors/Connector.ts"

/** Makes moves to one state from all states in which an attempt may be in flight. */
const attempted = <const To extends MessageStatus>(to: To) => ({ pending: to, retrying: to, unknown: to })

export const messages = machine({
  states: messageStatuses,
  moves: {
    accepted: attempted("sent"),
    refused: attempted("failed"),
    /** The attempt was certainly not processed, and attempts are left. */
    postponed: attempted("retrying"),
    /** No attempt was processed, and no attempts are left. */
    exhausted: attempted("failed"),
    /** The attempt was refused or was the last, and certainly not processed. But an earlier attempt may have been processed. */
    ended_in_doubt: attempted("unknown"),
    /** The attempt may have been processed. */
    unclear: attempted("unknown"),
    /** No attempt follows, because the channel was revoked or changed its provider, or the campaign has given up the message. */
    given_up: { retrying: "failed" },
    given_up_in_doubt: { retrying: "unknown", unknown: "unknown" },
    settled_sent: { unknown: "sent" },
    settled_failed: { unknown: "failed" }
  }
})
export type Move = keyof typeof messages.moves
/** The moves that are possible only while no attempt is in flight. */
type GivenUp = "given_up" | "given_up_in_doubt"

/** The status that each move gives to the attempt in flight. */
export const attemptAfter: Readonly<Record<Exclude<Move, GivenUp>, AttemptStatus>> = {
  accepted: "accepted",
  refused: "rejected",
  postponed: "retrying",
  exhausted: "rejected",
  ended_in_doubt: "rejected",
  unclear: "unknown",
  settled_sent: "unknown",
  settled_failed: "unknown"
}

export const after = (move: Move): MessageStatus => targetOf(messages, move)

export const before = (move: Move): ReadonlyArray<MessageStatus> => startsOf(messages, move)

/** Returns a SQL condition on a message's status: if no attempt is in flight, another attempt may follow. */
export const isWaiting = (sql: SqlClient.SqlClient, status: string): Statement.Fragment =>
  sql.literal(
    `${status} IN (${before("given_up_in_doubt")
      .map((state) => `'${state}'`)
      .join(", ")})`
  )

/**
 * Returns SQL for the status of a message that is given up. `inDoubt` is the SQL condition that an attempt may have been
 * processed.
 */
export const givenUp = (sql: SqlClient.SqlClient, inDoubt: string): Statement.Fragment =>
  sql.literal(`CASE WHEN ${inDoubt} THEN '${after("given_up_in_doubt")}' ELSE '${after("given_up")}' END`)

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
