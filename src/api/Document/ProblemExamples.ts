/** An example of each problem of each operation. */
import type * as OpenApi from "effect/http-api/OpenApi"
import type { Access } from "../Access.ts"
import type { OperationCode } from "./Advice.ts"
import { codesOf, type ProblemSchemas } from "./Problems.ts"

/** The members of an example whose values the schema of the problem does not fix. */
interface Example {
  readonly detail: string
  readonly [member: string]: unknown
}

const instance = "urn:developer-api:request:0b9e6c1a-52d7-4f6e-9a53-7c1d2e8f4a60"
const messageId = "msg_0193f0cd92c37d5e8b2c3d4e5f607182"

const examples: Readonly<Record<Exclude<OperationCode, keyof ReturnType<typeof ofOperation>>, Example>> = {
  malformed_json: { detail: "The body is empty." },
  cursor_invalid: {
    detail: "Start again without a cursor, or send the nextCursor of this list with the same filters."
  },
  deal_status_invalid: { detail: "Open the deal again before it moves between won and lost." },
  webhook_reference_invalid: {
    detail: "The path names no delivery of this installation: GET …/deliveries lists its deliveries."
  },
  project_mismatch: { detail: "The token belongs to another project than expectedProjectId." },
  schedule_invalid: { detail: "2026-11-20T10:00 in Europe/Berlin is past." },
  credential_missing: { detail: "Send a project token as `Authorization: Bearer dk_…`." },
  credential_invalid: {
    detail: "The token is empty, unknown, malformed, expired or revoked. Send it as `Authorization: Bearer <token>`."
  },
  entitlement_unavailable: { detail: "The project lacks the entitlement developer_api." },
  membership_unavailable: { detail: "The key is bound to the member mem_rosa." },
  client_not_found: {
    detail: "The project has no client with the id in the path: GET …/crm/clients lists its clients."
  },
  member_not_found: { detail: "The project has no member with the id in responsibleMemberId." },
  organization_not_found: { detail: "The project has no organization with the id in organizationId." },
  deal_not_found: { detail: "The project has no deal with the id in the path: GET …/crm/deals lists its deals." },
  deal_reference_not_found: {
    detail: "The pipeline has no stage with the id in stageId: GET …/crm/pipelines lists its stages."
  },
  note_not_found: { detail: "The deal in the path has no note with the id in the path: GET …/notes lists its notes." },
  ticket_not_found: {
    detail:
      "The project has no ticket with the id in the path. No operation lists tickets: they come from the project file."
  },
  installation_not_found: { detail: "The path names no installation of this project: GET …/integrations lists them." },
  conversation_not_found: {
    detail:
      "The project has no conversation with the id in the path. No operation lists conversations: they come from the project file."
  },
  message_not_found: { detail: "The conversation in the path has no message with the id in the path." },
  webhook_not_found: { detail: "The installation has no webhook: configure one first." },
  delivery_not_found: {
    detail:
      "The installation in the path has no delivery with the id in the path: GET …/deliveries lists its deliveries."
  },
  campaign_not_found: {
    detail: "The project has no campaign with the id in the path: GET …/campaigns lists its campaigns."
  },
  campaign_reference_not_found: { detail: "The project has no segment with the id in filter.segmentId." },
  idempotency_key_reused: {
    detail: "Send a new idempotency-key with a new request; keep a key for repeats of the same one."
  },
  version_conflict: { detail: "The record is at version 3. Read it again before you change it.", currentVersion: 3 },
  contact_capacity_exhausted: { detail: "Archive a client, or ask the operator for a larger contact capacity." },
  client_archived: { detail: 'Send exactly {"status":"active"} first.' },
  organization_archived: { detail: "The organization in organizationId is archived." },
  campaign_state_conflict: { detail: "The campaign is running; freeze_audience is allowed when it is draft." },
  campaign_not_ready: {
    detail: "The campaign lacks primary route and audience.",
    missing: ["primary_route", "audience"]
  },
  provider_conflict: {
    detail: "The message was not sent: its channel is revoked. A new message needs a new idempotency-key.",
    messageId
  },
  webhook_state_conflict: { detail: "The installation has no webhook: configure one first." },
  ticket_not_rateable: { detail: "A ticket can be rated once it is resolved or closed." },
  rating_customer_owned: { detail: "A rating by the customer cannot be replaced." },
  installation_not_ready: { detail: "The installation has no staged records." },
  body_too_large: { detail: "A body has at most 262144 bytes." },
  unsupported_media_type: { detail: "Send the body as `content-type: application/json`." },
  internal: { detail: "The failure was logged under this request's id." },
  rate_limiter_unavailable: { detail: "Requests can't be counted right now. Try again in a moment." },
  service_unavailable: { detail: "The database does not answer. Send the request again." },
  provider_outcome_unknown: {
    detail:
      "Send the request again with the same idempotency-key: it does not send the message again, and answers its state.",
    messageId
  }
}

const ofOperation = ({ module, policy, scope }: Access["Service"], { parameters }: OpenApi.OpenAPISpecOperation) => {
  const errors = faultsOf(parameters.map((parameter) => `${parameter.in}/${parameter.name}`))
  return {
    validation_failed: { detail: `See errors: ${Object.keys(errors).join(", ")}.`, errors },
    scope_missing: { detail: `The operation requires the scope ${scope}.`, requiredScope: scope },
    module_unavailable: { detail: `The project has not switched on the module ${module}.` },
    rate_limit_exceeded: { detail: limits[policy] }
  }
}

const limits = {
  read: 'The policy "read" allows 1200 requests per 60 s. Send it again after the seconds of Retry-After.',
  write: 'The policy "write" allows 300 requests per 60 s. Send it again after the seconds of Retry-After.',
  messages: 'The policy "messages" allows 60 requests per 60 s. Send it again after the seconds of Retry-After.'
} as const satisfies Record<Access["Service"]["policy"], string>

/** Returns a fault that a request with parameters at these locations can have. */
const faultsOf = (locations: ReadonlyArray<string>): Readonly<Record<string, ReadonlyArray<string>>> =>
  locations.includes("header/idempotency-key")
    ? { "header/idempotency-key": ["is required"] }
    : locations.includes("query/limit")
      ? { "query/limit": ["must be an integer from 1 to 100"] }
      : locations.includes("path/conversationId")
        ? { "path/conversationId": ["must be a UUID"] }
        : { [locations[0] ?? "query"]: ["must be a string of 1 to 160 characters"] }

/** Returns an example of each problem that a response may contain, by code. */
export const exampleProblems = (
  problems: ProblemSchemas,
  response: OpenApi.OpenApiSpecResponse,
  access: Access["Service"],
  operation: OpenApi.OpenAPISpecOperation
): Readonly<Record<string, unknown>> => {
  const known: Readonly<Record<string, Example>> = { ...examples, ...ofOperation(access, operation) }
  return Object.fromEntries(
    codesOf(response).map((code) => [
      code,
      { type: `urn:developer-api:problem:${code}`, ...problems.get(code), instance, code, ...known[code] }
    ])
  )
}
