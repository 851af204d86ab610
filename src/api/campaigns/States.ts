/** The states of a campaign and the moves of its commands, as data (contract §9). */
import { Schema } from "effect"

export const campaignStatuses = ["draft", "scheduled", "running", "paused", "completed", "cancelled"] as const
export const CampaignStatus = Schema.Literals(campaignStatuses)
export type CampaignStatus = typeof CampaignStatus.Type

/** The commands on a campaign. */
export const operations = [
  "rename",
  "delete",
  "bind_template",
  "bind_sender",
  "set_primary_route",
  "set_fallback_route",
  "remove_fallback_route",
  "freeze_audience",
  "schedule",
  "duplicate",
  "pause",
  "resume",
  "cancel"
] as const
export type Operation = (typeof operations)[number]

/** The target of a command: a state, the state that the campaign was paused from, or its removal. */
export type Move = CampaignStatus | "where it was" | "gone"

const draftOnly = { draft: "draft" } as const

/** The moves, by command and current state. A command without a move is refused. */
export const moves: Readonly<Record<Operation, Readonly<Partial<Record<CampaignStatus, Move>>>>> = {
  rename: { draft: "draft", scheduled: "scheduled", paused: "paused" },
  delete: { draft: "gone", completed: "gone", cancelled: "gone" },
  bind_template: draftOnly,
  bind_sender: draftOnly,
  set_primary_route: draftOnly,
  set_fallback_route: draftOnly,
  remove_fallback_route: draftOnly,
  freeze_audience: draftOnly,
  schedule: { draft: "scheduled", scheduled: "scheduled" },
  /** The campaign keeps its state; the copy is a draft. */
  duplicate: {
    draft: "draft",
    scheduled: "scheduled",
    running: "running",
    paused: "paused",
    completed: "completed",
    cancelled: "cancelled"
  },
  pause: { scheduled: "paused", running: "paused", paused: "paused" },
  resume: { scheduled: "scheduled", running: "running", paused: "where it was" },
  cancel: { scheduled: "cancelled", running: "cancelled", paused: "cancelled", cancelled: "cancelled" }
}

/** Returns the states in which a command is allowed. */
export const allowedIn = (operation: Operation): ReadonlyArray<CampaignStatus> =>
  campaignStatuses.filter((status) => moves[operation][status] !== undefined)

/** Describes the moves of a command for the reference: `scheduled` → `paused`, and so on. */
export const describeMoves = (operation: Operation): string =>
  allowedIn(operation)
    .map((status) => {
      const move = moves[operation][status]
      if (move === status) return `\`${status}\``
      return `\`${status}\` → ${campaignStatuses.some((known) => known === move) ? `\`${move}\`` : move}`
    })
    .join(", ")
