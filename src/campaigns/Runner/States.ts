/** The life of a recipient of a campaign, as data (contract §9): every move, on what it is made, and where it leads. */
export const states = ["pending", "sending", "sent", "failed", "unknown", "skipped"] as const
export type State = (typeof states)[number]

interface Move {
  readonly on: string
  readonly from: State
  readonly to: State
}

export const moves = [
  { on: "claimed", from: "pending", to: "sending" },
  /** The client withdrew consent, was suppressed, archived or merged after the freeze. */
  { on: "skipped", from: "pending", to: "skipped" },
  /** No route leads to the client any more. */
  { on: "unreachable", from: "pending", to: "failed" },
  /** In doubt, and skipped or without the route of the last attempt: the outcome can't be found out. */
  { on: "stranded", from: "pending", to: "unknown" },
  { on: "accepted", from: "sending", to: "sent" },
  /** Surely not processed: the same route again, after the backoff. */
  { on: "postponed", from: "sending", to: "pending" },
  /** Refused, or never processed, on the primary route: the fallback is next. */
  { on: "diverted", from: "sending", to: "pending" },
  { on: "refused", from: "sending", to: "failed" },
  /** It may have been processed, and the provider is idempotent: the same call again, after the backoff. */
  { on: "repeated", from: "sending", to: "pending" },
  { on: "unclear", from: "sending", to: "unknown" },
  /** The provider was not called: the circuit of the channel is open, or the process ends. */
  { on: "released", from: "sending", to: "pending" },
  /** The lease has ended or its worker is dead, the provider is idempotent, and attempts are left. */
  { on: "lost", from: "sending", to: "pending" },
  /** The lease has ended or its worker is dead, and the call must not be repeated. */
  { on: "lost_for_good", from: "sending", to: "unknown" }
] as const satisfies ReadonlyArray<Move>

export type Event = (typeof moves)[number]["on"]

const targets = new Map<Event, State>(moves.map(({ on, to }) => [on, to]))

/** Returns the state that an event leads to. */
export const after = (on: Event): State => targets.get(on) ?? "unknown"

/** States that are not final. A campaign is completed when none of its recipients is in one of them. */
export const open = ["pending", "sending"] as const satisfies ReadonlyArray<State>
