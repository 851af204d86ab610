/**
 * The states of a message and the moves between them (contract §8), as data.
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
import type { SqlClient, Statement } from "effect/sql"
import { type AttemptStatus, type MessageStatus, messageStatuses } from "../../api/messaging/Messaging.ts"
import { machine, startsOf, targetOf } from "../../api/schema/States.ts"

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
