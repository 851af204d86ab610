/** Ids: opaque strings of 1 to 160 characters, unique within a project, branded so that they cannot be mixed up. */
import { Schema, SchemaTransformation } from "effect"
import { text } from "./Fields.ts"

const id = text(1, 160)

export const ProjectId = id.pipe(Schema.brand("ProjectId"))
export type ProjectId = typeof ProjectId.Type

export const MemberId = id.pipe(Schema.brand("MemberId"))
export type MemberId = typeof MemberId.Type

export const OrganizationId = id.pipe(Schema.brand("OrganizationId"))
export type OrganizationId = typeof OrganizationId.Type

export const ClientId = id.pipe(Schema.brand("ClientId"))
export type ClientId = typeof ClientId.Type

export const PipelineId = id.pipe(Schema.brand("PipelineId"))
export type PipelineId = typeof PipelineId.Type

export const StageId = id.pipe(Schema.brand("StageId"))
export type StageId = typeof StageId.Type

export const DealId = id.pipe(Schema.brand("DealId"))
export type DealId = typeof DealId.Type

export const NoteId = id.pipe(Schema.brand("NoteId"))
export type NoteId = typeof NoteId.Type

export const TicketId = id.pipe(Schema.brand("TicketId"))
export type TicketId = typeof TicketId.Type

export const TaskId = id.pipe(Schema.brand("TaskId"))
export type TaskId = typeof TaskId.Type

export const InstallationId = id.pipe(Schema.brand("InstallationId"))
export type InstallationId = typeof InstallationId.Type

export const DeliveryId = id.pipe(Schema.brand("DeliveryId"))
export type DeliveryId = typeof DeliveryId.Type

export const EventId = id.pipe(Schema.brand("EventId"))
export type EventId = typeof EventId.Type

export const ChannelId = id.pipe(Schema.brand("ChannelId"))
export type ChannelId = typeof ChannelId.Type

export const SourceId = id.pipe(Schema.brand("SourceId"))
export type SourceId = typeof SourceId.Type

export const MessageId = id.pipe(Schema.brand("MessageId"))
export type MessageId = typeof MessageId.Type

export const SegmentId = id.pipe(Schema.brand("SegmentId"))
export type SegmentId = typeof SegmentId.Type

export const TemplateId = id.pipe(Schema.brand("TemplateId"))
export type TemplateId = typeof TemplateId.Type

export const CampaignId = id.pipe(Schema.brand("CampaignId"))
export type CampaignId = typeof CampaignId.Type

export const AudienceId = id.pipe(Schema.brand("AudienceId"))
export type AudienceId = typeof AudienceId.Type

/** A UUID of any version (RFC 9562) in either case, decoded to lower case. */
export const ConversationId = Schema.String.check(
  Schema.isPattern(/^[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}$/u, {
    expected: "a UUID",
    toJsonSchema: () => ({ format: "uuid" })
  })
).pipe(Schema.decode(SchemaTransformation.toLowerCase()), Schema.brand("ConversationId"))
export type ConversationId = typeof ConversationId.Type

/** The 12 characters of a token that identify its API key. They are not secret. */
export const KeyId = Schema.String.check(
  Schema.isPattern(/^[0-9A-Za-z]{12}$/u, { expected: "the 12 characters that name a key" })
).pipe(Schema.brand("KeyId"))
export type KeyId = typeof KeyId.Type
