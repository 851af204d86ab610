/** The states of a message and of its attempts, with all moves between them (contract §8). */
import type { AttemptStatus, MessageStatus } from "../../api/messaging/Messaging.ts"

interface Move {
  readonly on: string
  readonly from: ReadonlyArray<MessageStatus>
  readonly to: MessageStatus
  /** The new status of the attempt in flight, if there is one. */
  readonly attempt?: AttemptStatus
}

const open = ["pending", "retrying", "unknown"] as const satisfies ReadonlyArray<MessageStatus>

export const moves = [
  { on: "accepted", from: open, to: "sent", attempt: "accepted" },
  { on: "refused", from: open, to: "failed", attempt: "rejected" },
  /** Certainly not processed, and attempts are left. */
  { on: "postponed", from: open, to: "retrying", attempt: "retrying" },
  /** Certainly not processed, and it was the last attempt. */
  { on: "exhausted", from: open, to: "failed", attempt: "rejected" },
  /** The last attempt was certainly not processed, but an earlier one may have been. */
  { on: "exhausted_in_doubt", from: open, to: "unknown", attempt: "rejected" },
  /** It may have been processed. */
  { on: "unclear", from: open, to: "unknown", attempt: "unknown" },
  /** No further attempt: its channel was revoked or changed its provider, or its campaign has no use for it any more. */
  { on: "given_up", from: ["retrying"], to: "failed" },
  { on: "given_up_in_doubt", from: ["retrying", "unknown"], to: "unknown" },
  /** An operator has settled it. */
  { on: "settled_sent", from: ["unknown"], to: "sent", attempt: "unknown" },
  { on: "settled_failed", from: ["unknown"], to: "failed", attempt: "unknown" }
] as const satisfies ReadonlyArray<Move>

export type Event = (typeof moves)[number]["on"]

const byEvent: Readonly<Record<string, Move>> = Object.fromEntries(moves.map((move) => [move.on, move]))

/** Returns the move of an event. */
export const after = (on: Event): Move => byEvent[on] ?? moves[0]

const quoted = (states: ReadonlyArray<MessageStatus>) => states.map((state) => `'${state}'`).join(", ")

/** The SQL condition that a status is one in which a message waits for another attempt. */
export const isWaiting = (status: string) => `${status} IN (${quoted(after("given_up_in_doubt").from)})`

/** The SQL expression of the status of a message whose attempts are given up. */
export const givenUp = (inDoubt: string) =>
  `CASE WHEN ${inDoubt} THEN '${after("given_up_in_doubt").to}' ELSE '${after("given_up").to}' END`
