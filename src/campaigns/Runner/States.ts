/** The states of a recipient of a campaign, with all moves between them (contract §9). */
export const states = ["pending", "sending", "sent", "failed", "unknown", "skipped"] as const
type State = (typeof states)[number]

interface Move {
  readonly on: string
  readonly from: State
  readonly to: State
}

export const moves = [
  { on: "claimed", from: "pending", to: "sending" },
  /** The client withdrew consent, was suppressed, archived or merged after the freeze. */
  { on: "skipped", from: "pending", to: "skipped" },
  /** No route reaches the client any more. */
  { on: "unreachable", from: "pending", to: "failed" },
  /** In doubt, and skipped or without the route of the last attempt: the outcome cannot be determined. */
  { on: "undetermined", from: "pending", to: "unknown" },
  { on: "accepted", from: "sending", to: "sent" },
  /** Certainly not processed: the same route again, after the backoff. */
  { on: "postponed", from: "sending", to: "pending" },
  /** Refused or never processed on the primary route: the fallback route is next. */
  { on: "diverted", from: "sending", to: "pending" },
  { on: "refused", from: "sending", to: "failed" },
  /** Possibly processed, with an idempotent provider: the same call again, after the backoff. */
  { on: "repeated", from: "sending", to: "pending" },
  { on: "unclear", from: "sending", to: "unknown" },
  /** The provider was not called: the circuit of the channel is open, or the process ends. */
  { on: "released", from: "sending", to: "pending" },
  /** The lease has ended or its worker is dead, the provider is idempotent, and attempts are left. */
  { on: "lost", from: "sending", to: "pending" },
  /** The lease has ended or its worker is dead, and the call must not be repeated. */
  { on: "lost_final", from: "sending", to: "unknown" }
] as const satisfies ReadonlyArray<Move>

export type Event = (typeof moves)[number]["on"]

const targets = new Map<Event, State>(moves.map(({ on, to }) => [on, to]))

/** Returns the state that an event leads to. */
export const after = (on: Event): State => targets.get(on) ?? "unknown"

/** States that are not final. A campaign is completed when none of its recipients is in one of them. */
export const open = ["pending", "sending"] as const satisfies ReadonlyArray<State>

/** The SQL condition that a status is not final. */
export const isOpen = (status: string) => `${status} IN (${open.map((state) => `'${state}'`).join(", ")})`
