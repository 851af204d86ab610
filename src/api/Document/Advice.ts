/** The remedy of each problem, for the reference. The title explains the problem. */
export const advice: Readonly<Record<string, string>> = {
  // 400
  validation_failed: "`errors` names each location and its rule. Correct the request; the same key may be used again.",
  malformed_json: "Send one JSON document in UTF-8, without a byte order mark.",
  cursor_invalid: "Begin with the first page again, or send the cursor with the filters that it was made for.",
  deal_status_invalid: "Reopen the deal first: won and lost are reached from open alone.",
  webhook_reference_invalid:
    "Send an `https` URL of a public host without credentials or fragment; of a retry, a delivery of this installation.",
  project_mismatch: "Use a credential of the project that you mean. Nothing was read or sent.",
  schedule_invalid: "Send a time in the project's time zone that is yet to come and that its clocks will show.",
  // 401
  credential_missing: "Send `Authorization: Bearer <token>`.",
  credential_invalid:
    "Check the token. One that is unknown, malformed, expired or revoked looks the same; ask the operator for a new one.",
  // 403
  scope_missing: "Ask the operator for a token with `requiredScope`.",
  module_unavailable: "Ask the operator to switch the module on for the project.",
  entitlement_unavailable: "Ask the operator to entitle the project to `developer_api`.",
  membership_unavailable: "The token is bound to a member who is not active; ask the operator for another.",
  // 404
  client_not_found: "Check the id. A client of another project answers the same.",
  member_not_found: "Check `responsibleMemberId`.",
  organization_not_found: "Check `organizationId`.",
  deal_not_found: "Check the id. A deal of another project answers the same.",
  deal_reference_not_found: "`detail` names what is missing. A stage has to be one of the deal's pipeline.",
  note_not_found: "Check the ids of the deal and of its note.",
  ticket_not_found: "Check the id.",
  installation_not_found: "Check the id.",
  conversation_not_found: "Check the id.",
  campaign_not_found: "Check the id. A deleted campaign answers the same.",
  campaign_reference_not_found: "Check the segment, the template with its version, and the channel.",
  // 409
  idempotency_key_reused: "Send a new key with a new request; keep a key for repeats of the same one.",
  version_conflict: "Read the record again, decide anew, and send `currentVersion` under a new key.",
  contact_capacity_exhausted: "Archive a client, or ask the operator for more capacity.",
  client_archived: 'Send `{"status": "active"}` alone first.',
  organization_archived: "Choose another organization.",
  campaign_state_conflict: "The operation's table tells in which states it is allowed.",
  campaign_not_ready: "`missing` names what to set or freeze first.",
  provider_conflict: "The message is kept as failed. Send a new one, under a new key, once the cause is gone.",
  webhook_state_conflict: "Configure the webhook first, or enable it by configuring it again.",
  ticket_not_rateable: "Wait until the ticket is resolved or closed.",
  rating_customer_owned: "It stays as the customer gave it.",
  installation_not_ready: "It needs to be active, with an import profile and staged records.",
  // 413, 415, 429
  body_too_large: "A body has at most 256 KiB.",
  unsupported_media_type: "Send `content-type: application/json`.",
  rate_limit_exceeded: "Wait `Retry-After` seconds, then send it again with the same key. Nothing happened.",
  // 5xx
  internal: "It is logged under this `x-request-id`. Send it again with the same key.",
  rate_limiter_unavailable: "Wait `Retry-After` seconds, then send it again with the same key. Nothing happened.",
  service_unavailable: "Wait `Retry-After` seconds, then send it again with the same key: it has one effect at most.",
  provider_outcome_unknown:
    "Wait `Retry-After` seconds and send it again with the same key: that calls nobody, and tells what became of it."
}
