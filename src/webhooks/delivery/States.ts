/**
 * States of a delivery and the moves between them (contract §10), as data.
 *
 * The statement that appends an event also creates its deliveries, which are `pending`. A claim leases a delivery. `attempts`
 * and `leased_until` identify the lease, so a result is recorded only for the attempt that is still in flight.
 */
import { machine, stepOf } from "../../api/schema/States.ts"

export const deliveries = machine({
  states: ["pending", "delivering", "delivered", "dead"],
  moves: {
    claimed: { pending: "delivering" },
    succeeded: { delivering: "delivered" },
    /** The attempt failed, and the schedule has another attempt. */
    failed: { delivering: "pending" },
    /** The attempt failed and was the last of the schedule, or the endpoint is gone for good. */
    exhausted: { delivering: "dead" },
    /** The worker died or its lease expired. The outcome is unknown, so the attempt is repeated. */
    lease_lost: { delivering: "pending" },
    /** The worker shuts down before the attempt is finished. */
    released: { delivering: "pending" },
    /** The delivery was claimed ahead and returned before an attempt was made. */
    unsent: { delivering: "pending" },
    disabled: { pending: "dead" },
    /** The delivery is older than the sum of all delays of the retry schedule plus one day. */
    expired: { pending: "dead" },
    retried: { dead: "pending" }
  }
})
export const { states } = deliveries
export type State = (typeof states)[number]
export type Move = keyof typeof deliveries.moves

export const after = (move: Move): State => stepOf(deliveries, move).to

/** Returns the states before and after a move, as SQL. */
export const literalsOf = (move: Move): { readonly from: string; readonly to: string } => {
  const { from, to } = stepOf(deliveries, move)
  return { from: `'${from}'`, to: `'${to}'` }
}
