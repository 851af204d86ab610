/**
 * The problems of the API (contract §2), each declared once: code, status, title, remedy, detail, example. A problem is yielded
 * like any error; the server renders it and sets `instance`.
 */
import { Schema } from "effect"
import { text, Version } from "./schema/Fields.ts"
import { MessageId } from "./schema/Ids.ts"
import { problem } from "./schema/Problem.ts"

export * from "./RequestProblems.ts"

/** The parts of a campaign that `campaign_not_ready` can report as missing. A campaign that lacks a part cannot be scheduled. */
export const missingParts = ["primary_route", "audience", "eligible_recipients"] as const

/** A detail that has a text for each of the members of a request that name no record. */
const textsOf = (texts: Readonly<Record<string, string>>) => (members: ReadonlyArray<string>) =>
  members.map((member) => texts[member] ?? member).join(" ")

const currentVersion = Schema.NullOr(Version).annotate({
  description: "The current version of the record, from 1; null if there is no record yet."
})

const messageId = "msg_0193f0cd92c37d5e8b2c3d4e5f607182"

export class CursorInvalid extends problem<CursorInvalid>()("cursor_invalid", 400, {
  title: "The cursor does not belong to this list.",
  remedy: "Start again with the first page, or send the cursor with the filters of its list.",
  detail: "Start again without a cursor, or send the nextCursor of this list with the same filters."
}) {}
export class DealStatusInvalid extends problem<DealStatusInvalid>()("deal_status_invalid", 400, {
  title: "This move of the deal's status is not allowed.",
  remedy: "Open the deal again first: only an open deal can be won or lost.",
  detail: "Open the deal again before it moves between won and lost."
}) {}
export class WebhookReferenceInvalid extends problem<WebhookReferenceInvalid>()("webhook_reference_invalid", 400, {
  title: "The webhook cannot have this endpoint, or has no such delivery.",
  remedy:
    "With `configureWebhook`, send an `https` URL of a public host, without credentials or fragment. With `retryDelivery`, send the id of a delivery of this installation.",
  detail: "The path names no delivery of this installation: GET …/deliveries lists its deliveries."
}) {}
export class ProjectMismatch extends problem<ProjectMismatch>()("project_mismatch", 400, {
  title: "The credential belongs to another project than the expected one.",
  remedy: "Use a credential of the expected project. Nothing was read or sent.",
  detail: "The token belongs to another project than expectedProjectId."
}) {}
export class ScheduleInvalid extends problem<ScheduleInvalid>()("schedule_invalid", 400, {
  title: "The campaign cannot be scheduled for that time.",
  remedy: "Send a future time that exists in the project's time zone.",
  detail: (local: string, timeZone: string) => `${local} in ${timeZone} is past.`,
  example: (detail) => ({ detail: detail("2026-11-20T10:00", "Europe/Berlin") })
}) {}
export class ClientNotFound extends problem<ClientNotFound>()("client_not_found", 404, {
  title: "The project has no such client.",
  remedy: "Check the id. A client of another project gets the same answer.",
  detail: "The project has no client with the id in the path: GET …/crm/clients lists its clients."
}) {}
export class MemberNotFound extends problem<MemberNotFound>()("member_not_found", 404, {
  title: "The project has no such member.",
  remedy: "Check `responsibleMemberId`.",
  detail: "The project has no member with the id in responsibleMemberId."
}) {}
export class OrganizationNotFound extends problem<OrganizationNotFound>()("organization_not_found", 404, {
  title: "The project has no such organization.",
  remedy: "Check `organizationId`.",
  detail: "The project has no organization with the id in organizationId."
}) {}
export class ChannelNotFound extends problem<ChannelNotFound>()("channel_not_found", 404, {
  title: "The project has no such channel.",
  remedy: "Check each `channelId`.",
  detail: "The project has no channel with the id in a channelId: GET …/messaging/sources lists its channels."
}) {}
export class DealNotFound extends problem<DealNotFound>()("deal_not_found", 404, {
  title: "The project has no such deal.",
  remedy: "Check the id. A deal of another project gets the same answer.",
  detail: "The project has no deal with the id in the path: GET …/crm/deals lists its deals."
}) {}
export class DealReferenceNotFound extends problem<DealReferenceNotFound>()("deal_reference_not_found", 404, {
  title: "The deal references a record that the project does not have.",
  remedy: "`detail` names the missing reference. A stage must belong to the deal's pipeline.",
  detail: textsOf({
    clientId: "The project has no client with the id in clientId: GET …/crm/clients lists its clients.",
    organizationId: OrganizationNotFound.detail,
    responsibleMemberId: MemberNotFound.detail,
    pipelineId: "The project has no pipeline with the id in pipelineId: GET …/crm/pipelines lists its pipelines.",
    defaultPipeline: "The project has no default pipeline: send a pipelineId.",
    stageId: "The pipeline has no stage with the id in stageId: GET …/crm/pipelines lists its stages."
  }),
  example: (detail) => ({ detail: detail(["stageId"]) })
}) {}
export class NoteNotFound extends problem<NoteNotFound>()("note_not_found", 404, {
  title: "The deal has no such note.",
  remedy: "Check the ids of the deal and of its note.",
  detail: "The deal in the path has no note with the id in the path: GET …/notes lists its notes."
}) {}
export class TicketNotFound extends problem<TicketNotFound>()("ticket_not_found", 404, {
  title: "The project has no such ticket.",
  remedy: "Check the id.",
  detail: "The project has no ticket with the id in the path: GET …/crm/tickets lists its tickets."
}) {}
export class InstallationNotFound extends problem<InstallationNotFound>()("installation_not_found", 404, {
  title: "The project has no such installation.",
  remedy: "Check the id.",
  detail: "The path names no installation of this project: GET …/integrations lists them."
}) {}
export class ConversationNotFound extends problem<ConversationNotFound>()("conversation_not_found", 404, {
  title: "The project has no such conversation.",
  remedy: "Check the id.",
  detail:
    "The project has no conversation with the id in the path: GET …/messaging/conversations lists its conversations."
}) {}
export class MessageNotFound extends problem<MessageNotFound>()("message_not_found", 404, {
  title: "The conversation has no such message.",
  remedy: "Check the ids of the conversation and of its message. Settled messages are removed after 90 days.",
  detail: "The conversation in the path has no message with the id in the path."
}) {}
export class WebhookNotFound extends problem<WebhookNotFound>()("webhook_not_found", 404, {
  title: "The installation has no webhook.",
  remedy: "Configure a webhook first.",
  detail: "The installation has no webhook: configure one first."
}) {}
export class DeliveryNotFound extends problem<DeliveryNotFound>()("delivery_not_found", 404, {
  title: "The installation has no such delivery.",
  remedy: "Check the ids of the installation and of its delivery. Finished deliveries are removed after 30 days.",
  detail: "The installation in the path has no delivery with the id in the path: GET …/deliveries lists its deliveries."
}) {}
export class ReplayNotFound extends problem<ReplayNotFound>()("replay_not_found", 404, {
  title: "The installation has no such replay.",
  remedy: "Check the ids of the installation and of its replay.",
  detail: "The installation in the path has no replay with the id in the path: replayDeliveries answers the id."
}) {}
export class CampaignNotFound extends problem<CampaignNotFound>()("campaign_not_found", 404, {
  title: "The project has no such campaign.",
  remedy: "Check the id. A deleted campaign gets the same answer.",
  detail: "The project has no campaign with the id in the path: GET …/campaigns lists its campaigns."
}) {}
export class CampaignReferenceNotFound extends problem<CampaignReferenceNotFound>()(
  "campaign_reference_not_found",
  404,
  {
    title: "The campaign references a record that the project does not have.",
    remedy: "Check the segment, the template with its version, and the channel.",
    detail: textsOf({
      templateId: "The project has no template with the id in templateId.",
      templateVersion: "The template does not have the version in templateVersion.",
      channelId: "The project has no channel with the id in channelId.",
      segmentId: "The project has no segment with the id in filter.segmentId."
    }),
    example: (detail) => ({ detail: detail(["segmentId"]) })
  }
) {}
export class VersionConflict extends problem<VersionConflict>()("version_conflict", 409, {
  title: "The record is no longer at the expected version.",
  remedy:
    "Read the record again. Then send the command with `currentVersion` as its `expectedVersion`, and with a new key.",
  detail: (record: string, version: number | null) =>
    `The ${record} is at version ${version}. Read it again before you change it.`,
  members: { currentVersion },
  example: (detail) => ({ detail: detail("record", 3), currentVersion: 3 })
}) {}
export class PreconditionFailed extends problem<PreconditionFailed>()("precondition_failed", 412, {
  title: "The record does not meet the condition of if-match or if-none-match.",
  remedy:
    "After `if-match`, read the record again, then send the request with its new `etag` and a new key. After `if-none-match: *`, the record " +
    "exists: nothing was changed, and without the header the request would change it.",
  detail: (version: number | null) =>
    version === null
      ? "There is no record yet."
      : `The record is at version ${version}. Read it again before you change it.`,
  members: { currentVersion },
  example: (detail) => ({ detail: detail(3), currentVersion: 3 })
}) {
  /** `version` is the current version of the record; null if there is none. */
  static at(version: number | null) {
    return new PreconditionFailed({ detail: PreconditionFailed.detail(version), currentVersion: version })
  }
}
export class ContactCapacityExhausted extends problem<ContactCapacityExhausted>()("contact_capacity_exhausted", 409, {
  title: "The project has as many active clients as its capacity allows.",
  remedy: "Archive a client, or ask the operator for more capacity.",
  detail: "Archive a client, or ask the operator for a larger contact capacity."
}) {}
export class ExternalIdTaken extends problem<ExternalIdTaken>()("external_id_taken", 409, {
  title: "Another record of the project has this external id.",
  remedy: "Change the record in `resourceId`, or use another external id.",
  detail: (record: "client" | "deal", id: string) => `The ${record} ${id} has this externalId.`,
  members: {
    resourceId: text(1, 160).annotate({
      description: "The id of the record that has the external id: 1 to 160 characters."
    })
  },
  example: (detail) => ({ detail: detail("client", "cli_mara"), resourceId: "cli_mara" })
}) {}
export class ClientArchived extends problem<ClientArchived>()("client_archived", 409, {
  title: "The client is archived.",
  remedy: 'First send `{"status": "active"}`, without other members.',
  detail: 'Send exactly {"status":"active"} first.'
}) {}
export class OrganizationArchived extends problem<OrganizationArchived>()("organization_archived", 409, {
  title: "The organization is archived.",
  remedy: "Choose another organization.",
  detail: "The organization in organizationId is archived."
}) {}
export class TicketNotRateable extends problem<TicketNotRateable>()("ticket_not_rateable", 409, {
  title: "The ticket is neither resolved nor closed.",
  remedy: "Wait until the ticket is resolved or closed.",
  detail: "A ticket can be rated once it is resolved or closed."
}) {}
export class RatingCustomerOwned extends problem<RatingCustomerOwned>()("rating_customer_owned", 409, {
  title: "The customer has already rated the ticket.",
  remedy: "A customer's rating cannot be replaced.",
  detail: "A rating by the customer cannot be replaced."
}) {}
export class WebhookStateConflict extends problem<WebhookStateConflict>()("webhook_state_conflict", 409, {
  title: "The webhook's state does not allow this.",
  remedy:
    "`detail` names the state. Configure a webhook that is missing or disabled: this enables it. What is delivered can be sent again by `replayDeliveries`.",
  detail: WebhookNotFound.detail
}) {}
export class ProviderConflict extends problem<ProviderConflict>()("provider_conflict", 409, {
  title: "The message cannot be sent: its provider refused it, or its channel is revoked.",
  remedy: "The message is stored as failed. Remove the cause, then send a new message with a new key.",
  detail: (reason: string) => `The message was not sent${reason}. A new message needs a new idempotency-key.`,
  members: {
    messageId: MessageId.annotate({ description: "The id of the message, which is stored as failed." })
  },
  example: (detail) => ({ detail: detail(": its channel is revoked"), messageId })
}) {}
export class InstallationNotReady extends problem<InstallationNotReady>()("installation_not_ready", 409, {
  title: "The installation has nothing to preview.",
  remedy: "The installation must be active, with an import profile and staged records.",
  detail: "The installation has no staged records."
}) {}
export class CampaignStateConflict extends problem<CampaignStateConflict>()("campaign_state_conflict", 409, {
  title: "The state of the campaign, or of its channel, does not allow this.",
  remedy: "The description of the operation lists the states in which each command is allowed.",
  detail: (status: string, operation: string, allowed: ReadonlyArray<string>) =>
    `The campaign is ${status}; ${operation} is allowed when it is ${allowed.join(" or ")}.`,
  example: (detail) => ({ detail: detail("running", "freeze_audience", ["draft"]) })
}) {}
export class CampaignNotReady extends problem<CampaignNotReady>()("campaign_not_ready", 409, {
  title: "The campaign is not complete enough to be scheduled.",
  remedy: "Set or freeze the parts in `missing` first.",
  detail: (missing: ReadonlyArray<string>) =>
    `The campaign lacks ${missing.map((part) => part.replace("_", " ")).join(" and ")}.`,
  members: {
    missing: Schema.Array(Schema.Literals(missingParts)).annotate({
      description: "The parts that have to be set or frozen first."
    })
  },
  example: (detail) => ({ detail: detail(missingParts.slice(0, 2)), missing: missingParts.slice(0, 2) })
}) {}
export class ProviderOutcomeUnknown extends problem<ProviderOutcomeUnknown>()("provider_outcome_unknown", 503, {
  title: "It is unknown whether the provider accepted the message.",
  remedy:
    "Wait `Retry-After` seconds, then send the request again with the same key. This does not send the message again. The answer has its state.",
  detail:
    "Send the request again with the same idempotency-key: it does not send the message again, and answers its state.",
  members: {
    messageId: Schema.NullOr(MessageId).annotate({
      description: "The id of the message; null if it is unknown whether it was stored."
    })
  },
  example: (detail) => ({ detail, messageId })
}) {}
