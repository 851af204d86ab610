/** The states of a campaign, and the change of state that each command makes (contract §9). */
import { Schema, Struct } from "effect"
import { machine, startsOf } from "../schema/States.ts"

export const campaignStatuses = ["draft", "scheduled", "running", "paused", "completed", "cancelled"] as const
export const CampaignStatus = Schema.Literals(campaignStatuses)
export type CampaignStatus = typeof CampaignStatus.Type

const draftOnly = { draft: "draft" } as const

/** `where it was` is the state that the campaign was paused from. `gone` means that the campaign is deleted. */
export const campaigns = machine({
  states: campaignStatuses,
  others: ["where it was", "gone"],
  moves: {
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
})

/** The commands of callers, and the one of operators alone. */
export const commanded = machine({
  ...campaigns,
  others: ["where it was", "gone"],
  moves: {
    ...campaigns.moves,
    /** The failed recipients get another message. */
    retry_failed: { running: "running", paused: "paused", completed: "running" }
  }
})

export const operations = Struct.keys(campaigns.moves)
export type Operation = (typeof operations)[number]

/** Describes the moves of a command for the reference: `scheduled` → `paused`, and so on. */
export const describeMoves = (operation: Operation): string =>
  startsOf(campaigns, operation)
    .map((status) => {
      const target = campaigns.moves[operation][status]
      if (target === status) return `\`${status}\``
      return `\`${status}\` → ${campaignStatuses.some((known) => known === target) ? `\`${target}\`` : target}`
    })
    .join(", ")
