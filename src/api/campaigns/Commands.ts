/** The commands on a campaign, each a variant of one body, selected by `operation` (contract §9). */
import { Schema } from "effect"
import { ExpectedVersion, text, Version } from "../schema/Fields.ts"
import { ChannelId, TemplateId } from "../schema/Ids.ts"
import { AudienceFilter } from "./Audience.ts"
import type { Operation } from "./States.ts"

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
