import { machine } from "../../../api/schema/States.ts"

export const replays = machine({
  states: ["running", "cancelling", "cancelled", "completed"],
  moves: {
    /** An operator cancels the replay: no more deliveries are made. */
    cancel: { running: "cancelling" },
    /** The webhook was disabled. Its pending deliveries are dead-lettered, including the deliveries of the replay. */
    disabled: { running: "cancelled" },
    /** All unsent deliveries of the replay are dead-lettered, and no delivery is in flight. */
    emptied: { cancelling: "cancelled" },
    /** Every delivery in the range of the replay was read. */
    exhausted: { running: "completed" }
  }
})
export type State = (typeof replays)["states"][number]

export type EndReason = "operator" | "webhook_disabled"
