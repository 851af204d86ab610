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
  /** Withdrew consent, was suppressed, archived or merged since the freeze. */
  { on: "skipped", from: "pending", to: "skipped" },
  /** No route leads to them any more. */
  { on: "unreachable", from: "pending", to: "failed" },
  /** No longer to be sent to, or not on the route on which they may have got it: nobody will find out. */
  { on: "stranded", from: "pending", to: "unknown" },
  { on: "accepted", from: "sending", to: "sent" },
  /** Surely not processed: the same route again, later. */
  { on: "postponed", from: "sending", to: "pending" },
  /** Refused, or never processed, on the primary route: the fallback is next. */
  { on: "diverted", from: "sending", to: "pending" },
  { on: "refused", from: "sending", to: "failed" },
  /** It may have been processed, and the provider tells when it is repeated. */
  { on: "repeated", from: "sending", to: "pending" },
  { on: "unclear", from: "sending", to: "unknown" },
  /** The process ends before it has called anybody. */
  { on: "released", from: "sending", to: "pending" }
] as const satisfies ReadonlyArray<Move>

export type Event = (typeof moves)[number]["on"]

const targets = new Map<Event, State>(moves.map(({ on, to }) => [on, to]))

/** Where an event leads. */
export const after = (on: Event): State => targets.get(on) ?? "unknown"

/** Nothing more will happen to these; a campaign is completed when all its recipients are. */
export const open = ["pending", "sending"] as const satisfies ReadonlyArray<State>
