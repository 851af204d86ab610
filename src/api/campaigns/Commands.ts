/**
 * The states of a campaign and the commands that move it between them (contract §9). Each command is a variant of one body, selected by
 * `operation`.
 */
import { Schema, Struct } from "effect"
import { machine, startsOf } from "../schema/States.ts"
import { ExpectedVersion, text, Version } from "../schema/Fields.ts"
import { ChannelId, TemplateId } from "../schema/Ids.ts"
import { AudienceFilter } from "./Audience.ts"

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
export const allCommands = machine({
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

const name = text(1, 160).annotate({ description: "The new name of the campaign: 1 to 160 characters." })
const templateVersion = Version.annotate({ description: "The version of the template to send, from 1." })
const templateId = TemplateId.annotate({ description: "The id of the template to send." })
const channelId = ChannelId.annotate({ description: "The id of the channel to send over." })
const route = { templateId, templateVersion, channelId }

/** A local time in the time zone of the project. The handler refuses a time that is past, or that the zone skips. */
const LocalTime = Schema.String.check(
  Schema.isPattern(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}$/, { expected: "a local time, written YYYY-MM-DDThh:mm" })
)

const sendsPerMinute = Schema.Int.check(
  Schema.isBetween({ minimum: 1, maximum: 60_000 }, { expected: "an integer from 1 to 60000" })
).annotate({ description: "The maximum number of messages sent per minute: 1 to 60000." })

/** The schema name of a command: `set_primary_route` is `DeveloperCampaignSetPrimaryRoute`. */
const identifier = (operation: string) =>
  `DeveloperCampaign${operation
    .split("_")
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join("")}`

const variant = <const O extends Operation, Fields extends Schema.Struct.Fields>(operation: O, fields: Fields) =>
  Schema.Struct({
    operation: Schema.Literal(operation).annotate({ description: "Selects the command." }),
    ...fields
  }).annotate({ identifier: identifier(operation) })

export const CampaignCreate = Schema.Struct({
  name: name.annotate({ description: "The name of the campaign: 1 to 160 characters." })
}).annotate({ identifier: "DeveloperCampaignCreate" })
export type CampaignCreate = typeof CampaignCreate.Type

export const CampaignCommand = Schema.Union(
  [
    variant("rename", { expectedVersion: ExpectedVersion, name }),
    variant("delete", { expectedVersion: ExpectedVersion }),
    variant("bind_template", { templateId, templateVersion }),
    variant("bind_sender", { channelId }),
    variant("set_primary_route", route),
    variant("set_fallback_route", route),
    variant("remove_fallback_route", {}),
    variant("freeze_audience", {
      filter: AudienceFilter.annotateKey({ description: "Which clients the campaign is for." })
    }),
    variant("schedule", {
      scheduledForLocal: Schema.NullOr(LocalTime).annotate({
        description: "When to start, `YYYY-MM-DDThh:mm` in the time zone of the project; null to start now."
      }),
      sendsPerMinute
    }),
    variant("duplicate", {
      name: Schema.optionalKey(
        text(1, 160).annotate({
          description:
            "The name of the copy, 1 to 160 characters. If absent: the name of the campaign with ` copy` added, cut to 160 characters."
        })
      )
    }),
    variant("pause", {}),
    variant("resume", {}),
    variant("cancel", {})
  ],
  { mode: "oneOf" }
).annotate({ identifier: "DeveloperCampaignCommand" })
export type CampaignCommand = typeof CampaignCommand.Type
export type CommandOf<O extends Operation> = Extract<CampaignCommand, { readonly operation: O }>
