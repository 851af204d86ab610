/**
 * Every problem of the API, declared once: RFC 9457 bodies with a stable `code` (contract §2).
 *
 * A problem is yielded like any error; the server renders it and sets `instance`.
 */
import { Schema } from "effect"
import * as HttpApiError from "effect/http-api/HttpApiError"
import { Version } from "./schema/Fields.ts"
import { MessageId } from "./schema/Ids.ts"

/** A location begins with `path`, `query`, `header` or `body`. The location `request` is for malformed HTTP. */
export const Faults = Schema.Record(Schema.String, Schema.Array(Schema.String)).annotate({
  description: "The faults of the request: for each location, such as `body/amountMinor`, the rules that are not met."
})
export type Faults = typeof Faults.Type

/** The parts of a campaign that `campaign_not_ready` can report as missing. A campaign that lacks a part cannot be scheduled. */
export const missingParts = ["primary_route", "audience", "eligible_recipients"] as const

const declared = {
  validation_failed: [400, "The request does not have the required form."],
  malformed_json: [400, "The request body is not well-formed JSON."],
  cursor_invalid: [400, "The cursor does not belong to this list."],
  deal_status_invalid: [400, "This move of the deal's status is not allowed."],
  webhook_reference_invalid: [400, "The webhook cannot have this endpoint, or has no such delivery."],
  project_mismatch: [400, "The credential belongs to another project than the expected one."],
  schedule_invalid: [400, "The campaign cannot be scheduled for that time."],
  credential_missing: [401, "The request carries no credential."],
  credential_invalid: [401, "The credential is not valid."],
  origin_refused: [403, "The Origin header names another server."],
  scope_missing: [403, "The credential lacks the scope of this operation."],
  module_unavailable: [403, "The module of this operation is not enabled in the project."],
  entitlement_unavailable: [403, "The project is not entitled to the developer API."],
  membership_unavailable: [403, "The member behind the credential is not active."],
  route_not_found: [404, "No route matches this path."],
  client_not_found: [404, "The project has no such client."],
  member_not_found: [404, "The project has no such member."],
  organization_not_found: [404, "The project has no such organization."],
  deal_not_found: [404, "The project has no such deal."],
  deal_reference_not_found: [404, "The deal references a record that the project does not have."],
  note_not_found: [404, "The deal has no such note."],
  ticket_not_found: [404, "The project has no such ticket."],
  installation_not_found: [404, "The project has no such installation."],
  conversation_not_found: [404, "The project has no such conversation."],
  message_not_found: [404, "The conversation has no such message."],
  webhook_not_found: [404, "The installation has no webhook."],
  delivery_not_found: [404, "The installation has no such delivery."],
  campaign_not_found: [404, "The project has no such campaign."],
  campaign_reference_not_found: [404, "The campaign references a record that the project does not have."],
  method_not_allowed: [405, "The path does not support this method."],
  idempotency_key_reused: [409, "The idempotency key was used for another request."],
  version_conflict: [409, "The record is no longer at the expected version."],
  contact_capacity_exhausted: [409, "The project has as many active clients as its capacity allows."],
  client_archived: [409, "The client is archived."],
  organization_archived: [409, "The organization is archived."],
  ticket_not_rateable: [409, "The ticket is neither resolved nor closed."],
  rating_customer_owned: [409, "The customer has already rated the ticket."],
  webhook_state_conflict: [409, "The webhook's state does not allow this."],
  provider_conflict: [409, "The message cannot be sent: its provider refused it, or its channel is revoked."],
  installation_not_ready: [409, "The installation has nothing to preview."],
  campaign_state_conflict: [409, "The state of the campaign, or of its channel, does not allow this."],
  campaign_not_ready: [409, "The campaign is not complete enough to be scheduled."],
  request_timeout: [408, "The request did not arrive in time."],
  body_too_large: [413, "The request body is too large."],
  unsupported_media_type: [415, "The request body is not application/json."],
  misdirected_request: [421, "The Host header names another server."],
  rate_limit_exceeded: [429, "The project has sent too many requests."],
  headers_too_large: [431, "The request's header section is too large."],
  internal: [500, "The server failed to answer."],
  rate_limiter_unavailable: [503, "The rate limiter is unavailable."],
  service_unavailable: [503, "The service is not available right now."],
  provider_outcome_unknown: [503, "It is unknown whether the provider accepted the message."]
} as const

/** `extensions` are the problem's members beside `code` and those that RFC 9457 defines. */
const problemWith =
  <Self>() =>
  <const Code extends keyof typeof declared, const Fields extends HttpApiError.ProblemExtensionFields>(
    code: Code,
    extensions: Fields
  ) => {
    const [status, title]: (typeof declared)[Code] = declared[code]
    return HttpApiError.Problem<Self>()(
      code,
      { type: `urn:developer-api:problem:${code}`, status, title },
      Object.assign({ code: Schema.tag(code) }, extensions)
    )
  }

const problem =
  <Self>() =>
  <const Code extends keyof typeof declared>(code: Code) =>
    problemWith<Self>()(code, {})

export class ValidationFailed extends problemWith<ValidationFailed>()("validation_failed", { errors: Faults }) {}
export class MalformedJson extends problem<MalformedJson>()("malformed_json") {}
export class CursorInvalid extends problem<CursorInvalid>()("cursor_invalid") {}
export class DealStatusInvalid extends problem<DealStatusInvalid>()("deal_status_invalid") {}
export class WebhookReferenceInvalid extends problem<WebhookReferenceInvalid>()("webhook_reference_invalid") {}
export class ProjectMismatch extends problem<ProjectMismatch>()("project_mismatch") {}
export class ScheduleInvalid extends problem<ScheduleInvalid>()("schedule_invalid") {}
export class CredentialMissing extends problem<CredentialMissing>()("credential_missing") {}
export class CredentialInvalid extends problem<CredentialInvalid>()("credential_invalid") {}
export class OriginRefused extends problem<OriginRefused>()("origin_refused") {}
export class ScopeMissing extends problemWith<ScopeMissing>()("scope_missing", {
  requiredScope: Schema.String.annotate({ description: "The scope that a token needs for this operation." })
}) {}
export class ModuleUnavailable extends problem<ModuleUnavailable>()("module_unavailable") {}
export class EntitlementUnavailable extends problem<EntitlementUnavailable>()("entitlement_unavailable") {}
export class MembershipUnavailable extends problem<MembershipUnavailable>()("membership_unavailable") {}
export class RouteNotFound extends problem<RouteNotFound>()("route_not_found") {}
export class ClientNotFound extends problem<ClientNotFound>()("client_not_found") {}
export class MemberNotFound extends problem<MemberNotFound>()("member_not_found") {}
export class OrganizationNotFound extends problem<OrganizationNotFound>()("organization_not_found") {}
export class DealNotFound extends problem<DealNotFound>()("deal_not_found") {}
export class DealReferenceNotFound extends problem<DealReferenceNotFound>()("deal_reference_not_found") {}
export class NoteNotFound extends problem<NoteNotFound>()("note_not_found") {}
export class TicketNotFound extends problem<TicketNotFound>()("ticket_not_found") {}
export class InstallationNotFound extends problem<InstallationNotFound>()("installation_not_found") {}
export class ConversationNotFound extends problem<ConversationNotFound>()("conversation_not_found") {}
export class MessageNotFound extends problem<MessageNotFound>()("message_not_found") {}
export class WebhookNotFound extends problem<WebhookNotFound>()("webhook_not_found") {}
export class DeliveryNotFound extends problem<DeliveryNotFound>()("delivery_not_found") {}
export class CampaignNotFound extends problem<CampaignNotFound>()("campaign_not_found") {}
export class CampaignReferenceNotFound extends problem<CampaignReferenceNotFound>()("campaign_reference_not_found") {}
export class MethodNotAllowed extends problem<MethodNotAllowed>()("method_not_allowed") {}
export class IdempotencyKeyReused extends problem<IdempotencyKeyReused>()("idempotency_key_reused") {}
export class VersionConflict extends problemWith<VersionConflict>()("version_conflict", {
  currentVersion: Schema.NullOr(Version).annotate({
    description: "The current version of the record, from 1; null if there is no record yet."
  })
}) {}
export class ContactCapacityExhausted extends problem<ContactCapacityExhausted>()("contact_capacity_exhausted") {}
export class ClientArchived extends problem<ClientArchived>()("client_archived") {}
export class OrganizationArchived extends problem<OrganizationArchived>()("organization_archived") {}
export class TicketNotRateable extends problem<TicketNotRateable>()("ticket_not_rateable") {}
export class RatingCustomerOwned extends problem<RatingCustomerOwned>()("rating_customer_owned") {}
export class WebhookStateConflict extends problem<WebhookStateConflict>()("webhook_state_conflict") {}
export class ProviderConflict extends problemWith<ProviderConflict>()("provider_conflict", {
  messageId: MessageId.annotate({ description: "The id of the message, which is stored as failed." })
}) {}
export class InstallationNotReady extends problem<InstallationNotReady>()("installation_not_ready") {}
export class CampaignStateConflict extends problem<CampaignStateConflict>()("campaign_state_conflict") {}
export class CampaignNotReady extends problemWith<CampaignNotReady>()("campaign_not_ready", {
  missing: Schema.Array(Schema.Literals(missingParts)).annotate({
    description: "The parts that have to be set or frozen first."
  })
}) {}
export class RequestTimeout extends problem<RequestTimeout>()("request_timeout") {}
export class BodyTooLarge extends problem<BodyTooLarge>()("body_too_large") {}
export class UnsupportedMediaType extends problem<UnsupportedMediaType>()("unsupported_media_type") {}
export class MisdirectedRequest extends problem<MisdirectedRequest>()("misdirected_request") {}
export class RateLimitExceeded extends problem<RateLimitExceeded>()("rate_limit_exceeded") {}
export class HeadersTooLarge extends problem<HeadersTooLarge>()("headers_too_large") {}
export class Internal extends problem<Internal>()("internal") {}
export class RateLimiterUnavailable extends problem<RateLimiterUnavailable>()("rate_limiter_unavailable") {}
export class ServiceUnavailable extends problem<ServiceUnavailable>()("service_unavailable") {}
export class ProviderOutcomeUnknown extends problemWith<ProviderOutcomeUnknown>()("provider_outcome_unknown", {
  messageId: Schema.NullOr(MessageId).annotate({
    description: "The id of the message; null if it is unknown whether it was stored."
  })
}) {}
