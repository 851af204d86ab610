/**
 * States of a delivery and the moves between them (contract §10), as data.
 *
 * The statement that appends an event makes the delivery `pending`. A claim leases it: `attempts` and `leased_until` are
 * the fence of the lease, so a result is recorded only for the attempt that is still in flight.
 */
import type { SqlClient, Statement } from "effect/sql"

export const states = ["pending", "delivering", "delivered", "dead"] as const
export type State = (typeof states)[number]

export const moves = [
  { on: "claimed", from: "pending", to: "delivering" },
  { on: "succeeded", from: "delivering", to: "delivered" },
  /** The attempt failed and the schedule has another. */
  { on: "failed", from: "delivering", to: "pending" },
  /** The attempt failed and was the last of the schedule, or the endpoint is gone for good. */
  { on: "exhausted", from: "delivering", to: "dead" },
  /** The worker died or its lease expired. The outcome is unknown, so the attempt is repeated. */
  { on: "lease_lost", from: "delivering", to: "pending" },
  /** The worker shuts down before the attempt is finished. */
  { on: "released", from: "delivering", to: "pending" },
  /** Claimed ahead and returned before an attempt was made. */
  { on: "unsent", from: "delivering", to: "pending" },
  /** Its webhook is disabled. */
  { on: "disabled", from: "pending", to: "dead" },
  /** Its replay is cancelled. */
  { on: "cancelled", from: "pending", to: "dead" },
  /** Older than the whole retry schedule. */
  { on: "expired", from: "pending", to: "dead" },
  /** The retry operation. */
  { on: "retried", from: "dead", to: "pending" }
] as const satisfies ReadonlyArray<{ readonly on: string; readonly from: State; readonly to: State }>

export type Move = (typeof moves)[number]["on"]

/** Returns the state that a move leads to. */
export const after = (on: Move): State => moves.find((move) => move.on === on)?.to ?? "pending"

/** Returns the states that a move starts from and leads to, as literals of a statement. */
export const stepOf = (
  sql: SqlClient.SqlClient,
  on: Move
): { readonly from: Statement.Fragment; readonly to: Statement.Fragment } => {
  const { from, to } = moves.find((move) => move.on === on) ?? moves[0]
  return { from: sql.literal(`'${from}'`), to: sql.literal(`'${to}'`) }
}
