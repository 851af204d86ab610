import type * as Problems from "../Problems.ts"

type Code = {
  [Name in keyof typeof Problems]: (typeof Problems)[Name] extends new (...args: never) => { readonly code: infer C }
    ? C & string
    : never
}[keyof typeof Problems]

/** Problems that no operation returns: about routes, origins and HTTP itself. */
type OutsideOperations =
  | "route_not_found"
  | "method_not_allowed"
  | "request_timeout"
  | "misdirected_request"
  | "origin_refused"
  | "headers_too_large"

export type OperationCode = Exclude<Code, OutsideOperations>

/**
 * What a caller can do about each problem, for the reference. The `title` of a problem says what it is. The compiler reports
 * a code that has no remedy.
 */
const remedies: Readonly<Record<OperationCode, string>> = {
  // 400
  validation_failed: "`errors` names each location and its rule. Correct the request; the same key may be used again.",
  malformed_json: "Send one JSON document in UTF-8, without a byte order mark.",
  cursor_invalid: "Start again with the first page, or send the cursor with the filters of its list.",
  deal_status_invalid: "Open the deal again first: only an open deal can be won or lost.",
  webhook_reference_invalid:
    "With `configureWebhook`, send an `https` URL of a public host, without credentials or fragment. With `retryDelivery`, send the id of a delivery of this installation.",
  project_mismatch: "Use a credential of the expected project. Nothing was read or sent.",
  schedule_invalid: "Send a future time that exists in the project's time zone.",
  // 401
  credential_missing: "Send `Authorization: Bearer <token>`.",
  credential_invalid:
    "Check the token. Unknown, malformed, expired and revoked tokens get the same answer; ask the operator for a new one.",
  // 403
  scope_missing: "Ask the operator for a token with `requiredScope`.",
  module_unavailable: "Ask the operator to enable the module in the project.",
  entitlement_unavailable: "Ask the operator to entitle the project to `developer_api`.",
  membership_unavailable: "The token is bound to an inactive member; ask the operator for another token.",
  // 404
  client_not_found: "Check the id. A client of another project gets the same answer.",
  member_not_found: "Check `responsibleMemberId`.",
  organization_not_found: "Check `organizationId`.",
  deal_not_found: "Check the id. A deal of another project gets the same answer.",
  deal_reference_not_found: "`detail` names the missing reference. A stage must belong to the deal's pipeline.",
  note_not_found: "Check the ids of the deal and of its note.",
  ticket_not_found: "Check the id.",
  installation_not_found: "Check the id.",
  conversation_not_found: "Check the id.",
  message_not_found:
    "Check the ids of the conversation and of its message. Settled messages are removed after 90 days.",
  webhook_not_found: "Configure a webhook first.",
  delivery_not_found:
    "Check the ids of the installation and of its delivery. Finished deliveries are removed after 30 days.",
  campaign_not_found: "Check the id. A deleted campaign gets the same answer.",
  campaign_reference_not_found: "Check the segment, the template with its version, and the channel.",
  // 409
  idempotency_key_reused: "Use a new key for a new request. Use the same key only to repeat the same request.",
  version_conflict:
    "Read the record again. Then send the command with `currentVersion` as its `expectedVersion`, and with a new key.",
  contact_capacity_exhausted: "Archive a client, or ask the operator for more capacity.",
  client_archived: 'First send `{"status": "active"}`, without other members.',
  organization_archived: "Choose another organization.",
  campaign_state_conflict: "The description of the operation lists the states in which each command is allowed.",
  campaign_not_ready: "Set or freeze the parts in `missing` first.",
  provider_conflict: "The message is stored as failed. Remove the cause, then send a new message with a new key.",
  webhook_state_conflict:
    "`detail` names the state. Configure a webhook that is missing or disabled: this enables it. What is delivered can be sent again by an operator (`deliveries replay`).",
  ticket_not_rateable: "Wait until the ticket is resolved or closed.",
  rating_customer_owned: "A customer's rating cannot be replaced.",
  installation_not_ready: "The installation must be active, with an import profile and staged records.",
  // 413, 415, 429
  body_too_large: "A body has at most 256 KiB.",
  unsupported_media_type: "Send `content-type: application/json`.",
  rate_limit_exceeded: "Nothing happened. Wait `Retry-After` seconds, then send the request again with the same key.",
  // 5xx
  internal: "The failure is logged with this `x-request-id`. Send the request again with the same key.",
  rate_limiter_unavailable:
    "Nothing happened. Wait `Retry-After` seconds, then send the request again with the same key.",
  service_unavailable:
    "Wait `Retry-After` seconds, then send the request again with the same key. It has at most one effect.",
  provider_outcome_unknown:
    "Wait `Retry-After` seconds, then send the request again with the same key. This does not send the message again. The answer has its state."
}

export const advice: Readonly<Record<string, string | undefined>> = remedies
