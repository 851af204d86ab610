/**
 * The states of a message and the moves between them (contract §8), as data.
 *
 *   pending ──▶ sent, failed        the first attempt has an outcome
 *      │
 *      ├──▶ retrying ──▶ …          no attempt was processed; another follows
 *      └──▶ unknown ──▶ …           an attempt may have been processed. Another follows only over a provider with
 *                                   idempotency keys; otherwise the message stays unknown until an operator settles it
 *
 * An attempt in flight leaves the state as it is. `attempts` is the fence of its lease: a result is recorded only for the
 * attempt that is still in flight.
 */
import type { SqlClient, Statement } from "effect/sql"
import { type AttemptStatus, type MessageStatus, messageStatuses } from "../../api/messaging/Messaging.ts"
import { machine, startsOf, targetOf } from "../../api/schema/States.ts"

/** Leads from all states in which an attempt may be in flight to another. */
const attempted = <const To extends MessageStatus>(to: To) => ({ pending: to, retrying: to, unknown: to })

export const messages = machine({
  states: messageStatuses,
  moves: {
    accepted: attempted("sent"),
    refused: attempted("failed"),
    /** Certainly not processed, and attempts are left. */
    postponed: attempted("retrying"),
    /** Certainly not processed, and it was the last attempt. */
    exhausted: attempted("failed"),
    /** The last attempt was certainly not processed, but an earlier one may have been. */
    exhausted_in_doubt: attempted("unknown"),
    /** The attempt may have been processed. */
    unclear: attempted("unknown"),
    /** No further attempt: its channel was revoked or changed its provider, or its campaign has no use for it any more. */
    given_up: { retrying: "failed" },
    given_up_in_doubt: { retrying: "unknown", unknown: "unknown" },
    /** An operator has settled it. */
    settled_sent: { unknown: "sent" },
    settled_failed: { unknown: "failed" }
  }
})
export type Move = keyof typeof messages.moves
/** The moves of a message without an attempt in flight. */
type GivenUp = "given_up" | "given_up_in_doubt"

/** The status of the attempt that was in flight. */
export const attemptAfter: Readonly<Record<Exclude<Move, GivenUp>, AttemptStatus>> = {
  accepted: "accepted",
  refused: "rejected",
  postponed: "retrying",
  exhausted: "rejected",
  exhausted_in_doubt: "rejected",
  unclear: "unknown",
  settled_sent: "unknown",
  settled_failed: "unknown"
}

/** Returns the state that a move leads to. */
export const after = (move: Move): MessageStatus => targetOf(messages, move)

/** Returns the states that a move starts from. */
export const before = (move: Move): ReadonlyArray<MessageStatus> => startsOf(messages, move)

/** The condition that a message of this status waits for another attempt, unless one is in flight. */
export const isWaiting = (sql: SqlClient.SqlClient, status: string): Statement.Fragment =>
  sql.literal(
    `${status} IN (${before("given_up_in_doubt")
      .map((state) => `'${state}'`)
      .join(", ")})`
  )

/** The status of a message whose attempts are given up. */
export const givenUp = (sql: SqlClient.SqlClient, inDoubt: string): Statement.Fragment =>
  sql.literal(`CASE WHEN ${inDoubt} THEN '${after("given_up_in_doubt")}' ELSE '${after("given_up")}' END`)
