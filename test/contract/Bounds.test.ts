/** What bounds the size of a stored value: no command makes a column grow without end (contract §6, §10). */
import { PgClient } from "@effect/sql-pg"
import { assert, layer } from "../support/Vitest.ts"
import { TestDatabase } from "../support/TestDatabase.ts"

/** Columns of lists and documents, and the rule that bounds their size. */
const bounds: Readonly<Record<string, string>> = {
  "api_keys.scopes": "one of each scope",
  "api_keys.token_hash": "a digest",
  "audiences.failures": "one of each error code",
  "audiences.filter": "a command's body",
  "audit_entries.detail": "an operator's command",
  "campaigns.final_progress": "counts by state",
  "channels.config": "a project file, by the schema of its connector",
  "clients.ready_stamp_offer_ids": "a project file",
  "clients.tags": "a command's body",
  "console_links.digest": "a digest",
  "deliveries.attempt_log": "the newest 30 attempts, and five answers of 1,024 bytes",
  "endpoint_health.last_failure": "one attempt, and an answer of 1,024 bytes",
  "events.data": "a record and its earlier values",
  "erasures.conversation_ids": "a project file",
  "idempotency_keys.fingerprint": "a digest",
  "installations.profile_mappings": "a project file",
  "messages.attempt_log": "attempts of the schedule, and one for each outcome in doubt",
  "projects.entitlements": "a project file",
  "projects.modules": "a project file",
  "projects.rate_limits": "a project file",
  "replays.event_types": "one of each event type",
  "replays.statuses": "one of each state, by the version before",
  "segments.filter": "a project file",
  "service_audit.detail": "an operator's command",
  "staged_batches.counts": "one of each state",
  "staged_batches.profile_mappings": "a project file",
  "staged_batches.unsupported_fields": "names in a project file",
  "staged_contacts.mapped": "a project file",
  "staged_records.fields": "a project file",
  "webhook_secrets.sealed": "a secret",
  "webhooks.event_types": "one of each event type",
  "webhooks.header_names": "at most 10 names of 64 characters",
  "webhooks.headers": "at most 10 values of 1,024 characters, sealed"
}

layer(TestDatabase.layer)("a column that holds a list or a document", (it) => {
  it.effect("has a bound", function* () {
    const sql = yield* PgClient.PgClient
    const rows = yield* sql<{ readonly name: string }>`
      SELECT table_name || '.' || column_name AS name FROM information_schema.columns
      WHERE table_schema = 'public' AND data_type IN ('json', 'jsonb', 'bytea', 'ARRAY') ORDER BY 1`
    assert.deepStrictEqual(
      rows.map(({ name }) => name).filter((name) => bounds[name] === undefined),
      []
    )
  })
})
