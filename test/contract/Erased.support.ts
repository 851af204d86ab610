/** The marks of a person, and where they are stored. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { Answering } from "../webhooks/delivery/Deliveries.support.ts"

export const mark = "mark7f3a"
export const phone = "+4917175307531"
const isMarked = `~ '${mark}|4917175307531'`

/**
 * Every column that can hold a text, by table. First those with data of a client, in which the test sees it before the erase; then
 * the others, which hold ids, states, settings, or texts that others than the client's commands give: names of records, notes, titles,
 * subjects and comments are not searched, and staged records are not yet of a client. Whoever adds a column decides.
 */
const columns: Readonly<Record<string, readonly [ofClients: string, others: string]>> = {
  api_keys: ["", "project_id key_id token_hash name scopes member_id"],
  applied_migrations: ["", "name checksum"],
  attempt_minutes: ["", "project_id"],
  audiences: ["", "project_id id filter failures"],
  audit_entries: ["", "project_id id actor action target detail"],
  campaign_recipients: ["", "project_id audience_id client_id status route provider_type message_id error_code"],
  campaigns: [
    "",
    `project_id id name status primary_template_id primary_channel_id fallback_template_id fallback_channel_id audience_id
     paused_from traceparent scheduled_for_local final_progress time_zone`
  ],
  channels: ["", "project_id id source_id provider_type display_name status config"],
  client_addresses: ["address", "project_id client_id channel_id"],
  clients: [
    "display_name first_name last_name email phone tags loyalty_card_number",
    `project_id id organization_id responsible_member_id external_id status loyalty_level_id ready_stamp_offer_ids
     merged_into_client_id`
  ],
  console_links: ["", "digest actor"],
  conversations: ["address", "project_id id client_id channel_id"],
  deals: [
    "",
    `project_id id title client_id organization_id pipeline_id stage_id status lifecycle currency responsible_member_id
     lost_reason external_id`
  ],
  deliveries: [
    "attempt_log",
    "project_id id installation_id event_id status dead_code replay_id replay_of event_type replayed_by"
  ],
  endpoint_health: ["last_failure", "project_id installation_id"],
  erasures: ["", "project_id id client_id conversation_ids"],
  events: ["data", "project_id id type traceparent"],
  idempotency_keys: ["", "project_id key fingerprint resource_id request_id key_id operation trace_id"],
  installations: ["", "project_id id name status profile_mappings staged_digest"],
  loyalty_levels: ["", "project_id id name"],
  members: ["", "project_id id name email"],
  messages: [
    "address text attempt_log",
    "project_id id conversation_id channel_id provider_type status traceparent campaign_id audience_id"
  ],
  notes: ["", "project_id id deal_id body author_key_id"],
  organizations: ["", "project_id id name"],
  pipelines: ["", "project_id id name"],
  projects: ["", "project_id name time_zone modules entitlements rate_limits default_pipeline_id move_state move_peer"],
  refused_requests: ["", "project_id key_id"],
  replays: ["", "project_id id installation_id event_types statuses state position end_reason status"],
  segment_clients: ["", "project_id segment_id client_id"],
  segments: ["", "project_id id name description"],
  service_audit: ["", "id actor action target detail"],
  staged_batches: ["", "project_id installation_id digest profile_mappings counts unsupported_fields fingerprint"],
  staged_contacts: ["", "project_id installation_id external_id email phone mapped"],
  staged_records: ["", "project_id installation_id entity_type external_id fields"],
  stages: ["", "project_id id pipeline_id name"],
  stamp_offers: ["", "project_id id name"],
  tasks: ["", "project_id id title deal_id client_id assignee_id"],
  templates: ["", "project_id id name body"],
  tickets: ["", "project_id id subject status client_id rating_comment rating_by"],
  webhook_secrets: ["", "project_id installation_id sealed"],
  webhooks: ["", "project_id installation_id endpoint_url event_types disabled_reason headers header_names"]
}

const namesOf = (table: string, text: string) =>
  text
    .split(/\s+/)
    .filter((column) => column !== "")
    .map((column) => `${table}.${column}`)

/** The columns with data of a client. */
export const columnsOfClients = Object.entries(columns).flatMap(([table, [names]]) => namesOf(table, names))

/** Returns an effect that names the columns with marks. A column that can hold a text and that `columns` lacks fails the test. */
export const markedIn = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
  const stored = yield* sql<{ readonly table: string; readonly column: string; readonly isBytes: boolean }>`
    SELECT relname AS "table", attname AS "column", atttypid = 'bytea'::regtype AS "isBytes" FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
    WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace AND attnum > 0 AND NOT attisdropped
      AND atttypid <> ALL (ARRAY['boolean', 'smallint', 'integer', 'bigint', 'double precision', 'timestamptz', 'date', 'interval',
        'uuid']::regtype[])
    ORDER BY relname, attname`
  const known = new Set(Object.entries(columns).flatMap(([table, names]) => namesOf(table, names.join(" "))))
  assert.deepStrictEqual(
    stored.map(({ column, table }) => `${table}.${column}`).filter((column) => !known.has(column)),
    []
  )
  return Effect.forEach(stored, ({ column, isBytes, table }) => {
    const textOf = isBytes ? `encode(${column}, 'escape')` : `${column}::text`
    return Effect.map(
      sql`SELECT FROM ${sql(table)} AS stored WHERE ${sql.literal(textOf)} ${sql.literal(isMarked)}`,
      ({ length }) => (length === 0 ? [] : [`${table}.${column}`])
    )
  }).pipe(Effect.map((found) => found.flat()))
})

/** Answers with an error that repeats what was sent. */
export const echo =
  (status: number): Answering =>
  ({ body, response }) =>
    void response.writeHead(status, { "content-type": "text/plain" }).end(body)
