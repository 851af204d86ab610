/**
 * The life of a delivery, as data (contract §10): its states, and every move between them.
 *
 * A delivery is made `pending` by the statement that makes its event. Whoever claims it leases it, `attempts` being the
 * number of the attempt and the fence of the lease: a result is recorded only for the attempt that is still under way.
 */
export const states = ["pending", "delivering", "delivered", "dead"] as const
export type State = (typeof states)[number]

export const moves = [
  { on: "claimed", from: "pending", to: "delivering" },
  { on: "succeeded", from: "delivering", to: "delivered" },
  /** An attempt failed, and the schedule has another. */
  { on: "failed", from: "delivering", to: "pending" },
  /** An attempt failed, and it was the last of the schedule; or the endpoint is gone for good. */
  { on: "exhausted", from: "delivering", to: "dead" },
  /** The worker died or was too slow: nobody knows what became of the attempt, so it is made again. */
  { on: "lease_lost", from: "delivering", to: "pending" },
  /** The worker ends in good order, and gives back what it has not finished. */
  { on: "released", from: "delivering", to: "pending" },
  /** It was claimed ahead, and is given back before an attempt was made. */
  { on: "unsent", from: "delivering", to: "pending" },
  /** Its webhook was disabled. */
  { on: "disabled", from: "pending", to: "dead" },
  /** The retry operation. */
  { on: "retried", from: "dead", to: "pending" }
] as const satisfies ReadonlyArray<{ readonly on: string; readonly from: State; readonly to: State }>

/** Where a move leads. */
export const after = (on: (typeof moves)[number]["on"]): State => moves.find((move) => move.on === on)?.to ?? "pending"
