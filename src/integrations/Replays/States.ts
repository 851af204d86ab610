/** The states of a replay and the moves between them, as data. */
const states = ["running", "cancelling", "cancelled", "completed"] as const
export type State = (typeof states)[number]

const moves = {
  /** An operator cancels it: no more deliveries are made. */
  cancel: { running: "cancelling" },
  /** Its webhook was disabled, which dead-letters its deliveries that were not sent. */
  disabled: { running: "cancelled" },
  /** Its deliveries that were not sent are dead-lettered, and none is in flight any more. */
  emptied: { cancelling: "cancelled" },
  /** Every delivery of its range was read. */
  exhausted: { running: "completed" }
} as const satisfies Readonly<Record<string, Readonly<Partial<Record<State, State>>>>>
type Move = keyof typeof moves

/** Returns the state that a move starts from and the one that it leads to. */
export const stepOf = (move: Move): { readonly from: State; readonly to: State } => {
  const known: Readonly<Partial<Record<State, State>>> = moves[move]
  for (const from of states) {
    const to = known[from]
    if (to !== undefined) return { from, to }
  }
  throw new Error(`The move ${move} has no state to start from`)
}

/** Why a replay was cancelled. */
export type EndReason = "operator" | "webhook_disabled"
