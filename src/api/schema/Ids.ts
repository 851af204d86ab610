/** Ids: opaque strings of 1 to 160 characters, unique within a project, branded so that they cannot be mixed up. */
import { Schema, SchemaTransformation } from "effect"
import { text } from "./Fields.ts"

const id = (noun: string) => text(1, 160).annotate({ description: `The id of the ${noun}: 1 to 160 characters.` })

export const ProjectId = id("project").pipe(Schema.brand("ProjectId"))
export type ProjectId = typeof ProjectId.Type

export const MemberId = id("member").pipe(Schema.brand("MemberId"))
export type MemberId = typeof MemberId.Type

export const OrganizationId = id("organization").pipe(Schema.brand("OrganizationId"))
export type OrganizationId = typeof OrganizationId.Type

export const ClientId = id("client").pipe(Schema.brand("ClientId"))
export type ClientId = typeof ClientId.Type

export const PipelineId = id("pipeline").pipe(Schema.brand("PipelineId"))
export type PipelineId = typeof PipelineId.Type

export const StageId = id("stage").pipe(Schema.brand("StageId"))
export type StageId = typeof StageId.Type

export const DealId = id("deal").pipe(Schema.brand("DealId"))
export type DealId = typeof DealId.Type

export const NoteId = id("note").pipe(Schema.brand("NoteId"))
export type NoteId = typeof NoteId.Type

export const TicketId = id("ticket").pipe(Schema.brand("TicketId"))
export type TicketId = typeof TicketId.Type

export const TaskId = id("task").pipe(Schema.brand("TaskId"))
export type TaskId = typeof TaskId.Type

export const InstallationId = id("installation").pipe(Schema.brand("InstallationId"))
export type InstallationId = typeof InstallationId.Type

export const DeliveryId = id("delivery").pipe(Schema.brand("DeliveryId"))
export type DeliveryId = typeof DeliveryId.Type

export const ReplayId = id("replay").pipe(Schema.brand("ReplayId"))
export type ReplayId = typeof ReplayId.Type

export const EventId = id("event").pipe(Schema.brand("EventId"))
export type EventId = typeof EventId.Type

export const ChannelId = id("channel").pipe(Schema.brand("ChannelId"))
export type ChannelId = typeof ChannelId.Type

export const SourceId = id("source").pipe(Schema.brand("SourceId"))
export type SourceId = typeof SourceId.Type

export const MessageId = id("message").pipe(Schema.brand("MessageId"))
export type MessageId = typeof MessageId.Type

export const SegmentId = id("segment").pipe(Schema.brand("SegmentId"))
export type SegmentId = typeof SegmentId.Type

export const TemplateId = id("template").pipe(Schema.brand("TemplateId"))
export type TemplateId = typeof TemplateId.Type

export const CampaignId = id("campaign").pipe(Schema.brand("CampaignId"))
export type CampaignId = typeof CampaignId.Type

export const AudienceId = id("audience").pipe(Schema.brand("AudienceId"))
export type AudienceId = typeof AudienceId.Type

/** A UUID of any version (RFC 9562) in either case, decoded to lower case. */
export const ConversationId = Schema.String.check(
  Schema.isPattern(/^[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}$/u, {
    expected: "a UUID",
    toJsonSchema: () => ({ format: "uuid" })
  })
)
  .annotate({ description: "The id of the conversation: a UUID, in lower case in answers." })
  .pipe(Schema.decode(SchemaTransformation.toLowerCase()), Schema.brand("ConversationId"))
export type ConversationId = typeof ConversationId.Type

/** The 12 characters of a token that identify its API key. They are not secret. */
export const KeyId = Schema.String.check(
  Schema.isPattern(/^[0-9A-Za-z]{12}$/u, { expected: "the 12 characters that name a key" })
)
  .annotate({ description: "The id of the API key: the 12 characters of its token after `dk_`." })
  .pipe(Schema.brand("KeyId"))
export type KeyId = typeof KeyId.Type
