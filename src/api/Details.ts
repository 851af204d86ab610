/** The texts of the member `detail` of problems. Answers contain them, and the reference shows them as examples. */
import type { Module, Policy, Scope } from "./Access.ts"
import type { RateLimit } from "./Authentication.ts"
import { rateable } from "./crm/Tickets.ts"

/** Details that are the same for each request, by code. */
export const details = {
  cursor_invalid: "Start again without a cursor, or send the nextCursor of this list with the same filters.",
  malformed_json: "The body is empty.",
  deal_status_invalid: "Open the deal again before it moves between won and lost.",
  webhook_reference_invalid: "The path names no delivery of this installation: GET …/deliveries lists its deliveries.",
  project_mismatch: "The token belongs to another project than expectedProjectId.",
  credential_missing: "Send a project token as `Authorization: Bearer dk_…`.",
  credential_invalid:
    "The token is empty, unknown, malformed, expired or revoked. Send it as `Authorization: Bearer <token>`.",
  entitlement_unavailable: "The project lacks the entitlement developer_api.",
  client_not_found: "The project has no client with the id in the path: GET …/crm/clients lists its clients.",
  member_not_found: "The project has no member with the id in responsibleMemberId.",
  organization_not_found: "The project has no organization with the id in organizationId.",
  deal_not_found: "The project has no deal with the id in the path: GET …/crm/deals lists its deals.",
  note_not_found: "The deal in the path has no note with the id in the path: GET …/notes lists its notes.",
  ticket_not_found:
    "The project has no ticket with the id in the path. No operation lists tickets: they come from the project file.",
  installation_not_found: "The path names no installation of this project: GET …/integrations lists them.",
  conversation_not_found:
    "The project has no conversation with the id in the path. No operation lists conversations: they come from the project file.",
  message_not_found: "The conversation in the path has no message with the id in the path.",
  webhook_not_found: "The installation has no webhook: configure one first.",
  delivery_not_found:
    "The installation in the path has no delivery with the id in the path: GET …/deliveries lists its deliveries.",
  campaign_not_found: "The project has no campaign with the id in the path: GET …/campaigns lists its campaigns.",
  idempotency_key_reused: "Send a new idempotency-key with a new request; keep a key for repeats of the same one.",
  contact_capacity_exhausted: "Archive a client, or ask the operator for a larger contact capacity.",
  client_archived: 'Send exactly {"status":"active"} first.',
  organization_archived: "The organization in organizationId is archived.",
  ticket_not_rateable: `A ticket can be rated once it is ${rateable.join(" or ")}.`,
  rating_customer_owned: "A rating by the customer cannot be replaced.",
  installation_not_ready: "The installation has no staged records.",
  unsupported_media_type: "Send the body as `content-type: application/json`.",
  internal: "The failure was logged under this request's id.",
  rate_limiter_unavailable: "Requests can't be counted right now. Try again in a moment.",
  service_unavailable: "The database does not answer. Send the request again.",
  provider_outcome_unknown:
    "Send the request again with the same idempotency-key: it does not send the message again, and answers its state."
} as const

/** Details of `deal_reference_not_found`, by the member with the reference. */
export const missingOfDeal = {
  clientId: "The project has no client with the id in clientId: GET …/crm/clients lists its clients.",
  organizationId: details.organization_not_found,
  responsibleMemberId: details.member_not_found,
  pipelineId: "The project has no pipeline with the id in pipelineId: GET …/crm/pipelines lists its pipelines.",
  defaultPipeline: "The project has no default pipeline: send a pipelineId.",
  stageId: "The pipeline has no stage with the id in stageId: GET …/crm/pipelines lists its stages."
}

/** Details of `campaign_reference_not_found`, by the member with the reference. */
export const missingOfCampaign = {
  templateId: "The project has no template with the id in templateId.",
  templateVersion: "The template does not have the version in templateVersion.",
  channelId: "The project has no channel with the id in channelId.",
  segmentId: "The project has no segment with the id in filter.segmentId."
}

/** Details that contain values of the request, by code. */
export const detailOf = {
  module_unavailable: (module: Module) => `The project has not switched on the module ${module}.`,
  membership_unavailable: (memberId: string | null) => `The key is bound to the member ${memberId}.`,
  scope_missing: (scope: Scope) => `The operation requires the scope ${scope}.`,
  version_conflict: (record: string, version: number | null) =>
    `The ${record} is at version ${version}. Read it again before you change it.`,
  campaign_state_conflict: (status: string, operation: string, allowed: ReadonlyArray<string>) =>
    `The campaign is ${status}; ${operation} is allowed when it is ${allowed.join(" or ")}.`,
  campaign_not_ready: (missing: ReadonlyArray<string>) =>
    `The campaign lacks ${missing.map((part) => part.replace("_", " ")).join(" and ")}.`,
  provider_conflict: (reason: string) =>
    `The message was not sent${reason}. A new message needs a new idempotency-key.`,
  schedule_invalid: (local: string, timeZone: string) => `${local} in ${timeZone} is past.`,
  body_too_large: (bytes: number) => `A body has at most ${bytes} bytes.`,
  rate_limit_exceeded: ({ limit, policy, windowSeconds }: RateLimit & { readonly policy: Policy }) =>
    `The policy "${policy}" allows ${limit} requests per ${windowSeconds} s. Send it again after the seconds of Retry-After.`
}
