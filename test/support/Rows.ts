/** Rows that tests insert by SQL. A test sets the columns that matter to it. */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"

/** Values by column. A time may be "now", which is the start of the transaction. */
type Row = Readonly<Record<string, unknown>>

const times = { created_at: "now", updated_at: "now" }

/** The values of the columns that have no default, by table. A table that is not listed has none. */
const usual: Readonly<Record<string, Row>> = {
  campaigns: { name: "Campaign", ...times },
  channels: { provider_type: "sandbox", display_name: "Channel", status: "active", config: "", connected_at: "now" },
  clients: { display_name: "Client", tags: [], status: "active", version: 1, ...times },
  conversations: { address: "4711", observed_at: "now" },
  deals: { title: "Deal", status: "open", lifecycle: "active", version: 1, ...times },
  deliveries: { created_at: "now" },
  events: { type: "crm.deal.created.v1", data: {}, traceparent: "", occurred_at: "now" },
  idempotency_keys: { fingerprint: "\\x00", resource_id: "res_1", changed: true, created_at: "now" },
  installations: { name: "Shop", status: "active" },
  members: { name: "Anna", active: true },
  messages: {
    provider_type: "sandbox",
    address: "4711",
    text: "Hello",
    status: "sent",
    attempts: 0,
    attempting: false,
    attempt_log: [],
    traceparent: "",
    ...times
  },
  notes: { body: "Note", version: 1, ...times },
  organizations: { name: "Organization", archived: false },
  pipelines: { name: "Pipeline" },
  projects: { name: "Acme", time_zone: "UTC", modules: [], entitlements: [], rate_limits: {}, created_at: "now" },
  replays: {
    since: "now",
    until: "now",
    event_types: [],
    status: "dead",
    state: "running",
    made: 0,
    position: "",
    created_at: "now"
  },
  segments: { name: "Segment", contact_count: 0, ...times },
  templates: { version: 1, name: "Template", body: "Hello" },
  tickets: { subject: "Ticket", status: "resolved", version: 1 },
  webhooks: { endpoint_url: "http://127.0.0.1:9/", event_types: [], enabled: true, version: 1 }
}

/** Returns bytes as PostgreSQL writes them. */
export const bytea = (bytes: Uint8Array) => `\\x${Buffer.from(bytes).toString("hex")}`

/** Returns the statement that inserts rows, which all have the columns of the first. */
const insertOf = (table: string, ...rows: ReadonlyArray<Row>): string => {
  const complete = rows.map((row): Row => ({ ...usual[table], ...row }))
  const columns = Object.keys(complete[0] ?? {}).join(", ")
  const values = JSON.stringify(complete).replaceAll("'", "''")
  return `INSERT INTO ${table} (${columns}) SELECT ${columns} FROM jsonb_populate_recordset(NULL::${table}, '${values}')`
}

/** Inserts a row, or sets these columns of the row that has its key. */
export const reset = (sql: SqlClient.SqlClient, table: string, row: Row, key = "project_id, id") => {
  const set = Object.keys({ ...usual[table], ...row }).map((column) => `${column} = excluded.${column}`)
  return sql
    .unsafe(`${insertOf(table, row)} ON CONFLICT (${key}) DO UPDATE SET ${set.join()}`)
    .pipe(Effect.asVoid, Effect.orDie)
}

/** Inserts rows, which all have the columns of the first. */
export const put = (sql: SqlClient.SqlClient, table: string, ...rows: ReadonlyArray<Row>) =>
  sql.unsafe(insertOf(table, ...rows)).pipe(Effect.asVoid, Effect.orDie)

/** Returns the parts of a project file for deals that notes can have. */
export const withDeals = (...ids: ReadonlyArray<string>) => ({
  pipelines: [{ id: "sales", name: "Sales", stages: [{ id: "new", name: "New" }] }],
  deals: ids.map((id) => ({ id, title: "A deal", pipelineId: "sales" }))
})
