/** The commands on a campaign, each a variant of one body (contract §9). */
import { Schema } from "effect"
import { text, Version } from "../Fields.ts"
import { ChannelId, TemplateId } from "../Ids.ts"
import { variants } from "../Variants.ts"
import { AudienceFilter } from "./Audience.ts"
import type { Operation } from "./States.ts"

const name = text(1, 160)
const templateVersion = Version
const route = { templateId: TemplateId, templateVersion, channelId: ChannelId }

/** A local time of the project. Whether it exists, and whether it is past, is checked later. */
const LocalTime = Schema.String.check(
  Schema.isPattern(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}$/, { expected: "a local time, written YYYY-MM-DDThh:mm" })
)

const sendsPerMinute = Schema.Int.check(
  Schema.isBetween({ minimum: 1, maximum: 60_000 }, { expected: "an integer from 1 to 60000" })
)

/** The schema name of a command: `set_primary_route` is `DeveloperCampaignSetPrimaryRoute`. */
const identifier = (operation: string) =>
  `DeveloperCampaign${operation
    .split("_")
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join("")}`

const variant = <const O extends Operation, Fields extends Schema.Struct.Fields>(operation: O, fields: Fields) =>
  Schema.Struct({ operation: Schema.Literal(operation), ...fields }).annotate({ identifier: identifier(operation) })

export const CampaignCommand = variants("operation", [
  variant("rename", { expectedVersion: Version, name }),
  variant("delete", { expectedVersion: Version }),
  variant("bind_template", { templateId: TemplateId, templateVersion }),
  variant("bind_sender", { channelId: ChannelId }),
  variant("set_primary_route", route),
  variant("set_fallback_route", route),
  variant("remove_fallback_route", {}),
  variant("freeze_audience", { filter: AudienceFilter }),
  variant("schedule", {
    scheduledForLocal: Schema.NullOr(LocalTime).annotate({ description: "In the project's time zone; null is now" }),
    sendsPerMinute
  }),
  variant("duplicate", { name: Schema.optionalKey(name) }),
  variant("pause", {}),
  variant("resume", {}),
  variant("cancel", {})
]).annotate({ identifier: "DeveloperCampaignCommand" })
export type CampaignCommand = typeof CampaignCommand.Type
export type CommandOf<O extends Operation> = Extract<CampaignCommand, { readonly operation: O }>
