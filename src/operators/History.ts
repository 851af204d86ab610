/**
 * What has happened to a record: the commands of the API and the actions of operators that have changed it, its events, and their
 * deliveries. The history of a request, a trace or an idempotency key is the history of its commands. Records, requests and traces are
 * found by the beginning of an id.
 */
import { Effect, Struct } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import type { ProjectId } from "../api/schema/Ids.ts"
import { columnsOf, type Delivery } from "../webhooks/delivery/DeliveryList.ts"
import { selectList } from "../sql/Columns.ts"
import { entries } from "../operating/Audit.ts"
import { scanLimit } from "../operating/Lists.ts"

/** Maximum number of commands, actions, events and deliveries: the newest. */
export const maxShown = 50

const commandColumns = {
  at: ["created_at", "timestamptz"],
  operation: "operation",
  resourceId: "resource_id",
  changed: ["changed", "boolean"],
  version: ["version", "integer"],
  idempotencyKey: "key",
  keyId: "key_id",
  requestId: "request_id",
  traceId: "trace_id"
} as const

export interface StoredCommand {
  readonly at: string
  /** Null if a version before has run it; so are the ids of its key, request and trace. */
  readonly operation: string | null
  readonly resourceId: string
  readonly changed: boolean
  readonly version: number | null
  readonly idempotencyKey: string
  readonly keyId: string | null
  readonly keyName: string | null
  readonly requestId: string | null
  readonly traceId: string | null
}

interface Event {
  readonly id: string
  readonly type: string
  readonly occurredAt: string
  /** As JSON; null except in the history of the event itself. */
  readonly data: string | null
}

/** The columns by which the commands of these kinds are found. For other kinds, commands are found by the record that they have changed. */
const by: Partial<Record<RecordKind, string>> = {
  command: "key",
  key: "key_id",
  request: "request_id",
  trace: "trace_id"
}

/** The columns of a record that have times of its events. They stay when its commands are no longer stored. */
const ownTimes: Partial<Record<RecordKind, readonly [table: string, times: string]>> = {
  client: ["clients", "created_at, updated_at"],
  deal: ["deals", "created_at, updated_at"],
  task: ["tasks", "created_at, completed_at"]
}

interface Change {
  readonly id: string
  readonly at: string
}

/**
 * Reads a history, newest first. Events have no index by record. But an event has the same time as the change that it reports, so only
 * events of the times of changes are read.
 */
export const historyOf = Effect.fn("historyOf")(function* (
  projectId: ProjectId,
  { id, kind }: { readonly kind: RecordKind; readonly id: string }
) {
  const sql = yield* SqlClient.SqlClient
  const ofEvent =
    kind === "event"
      ? yield* sql<Change>`
          SELECT about.value ->> 'id' AS id, occurred_at AT TIME ZONE 'UTC' AS at FROM events, json_each(data) AS about
          WHERE project_id = ${projectId} AND events.id = ${id} AND about.value ->> 'id' IS NOT NULL`
      : []
  const ofRecord =
    kind === "event"
      ? sql`(resource_id, created_at) IN (SELECT * FROM ${changes(sql, ofEvent)})`
      : sql`resource_id = ${id}`
  const column = by[kind]
  // No index has the API key, so its commands are found among the newest. The condition on `created_at` is that of the index by age.
  const newest = sql`(SELECT * FROM idempotency_keys WHERE project_id = ${projectId} AND created_at < 'infinity'
    ORDER BY created_at DESC LIMIT ${scanLimit}::int) newest`
  const commands = yield* sql<StoredCommand>`
    SELECT command.*, api_keys.name AS "keyName" FROM (
      SELECT ${sql.literal(selectList(commandColumns))} FROM ${kind === "key" ? newest : sql`idempotency_keys`}
      WHERE project_id = ${projectId}
        AND ${column === undefined ? sql`${ofRecord} AND operation IS NOT NULL` : sql`${sql(column)} = ${id}`}
      ORDER BY created_at DESC LIMIT ${maxShown}::int
    ) command LEFT JOIN api_keys ON api_keys.project_id = ${projectId} AND api_keys.key_id = command."keyId"
    ORDER BY at DESC`
  const times = ownTimes[kind]
  const own =
    times === undefined
      ? []
      : yield* sql<Change>`
          SELECT ${id}::text AS id, at AT TIME ZONE 'UTC' AS at
          FROM ${sql(times[0])}, unnest(ARRAY[${sql.literal(times[1])}]) AS at
          WHERE project_id = ${projectId} AND id = ${id} AND at IS NOT NULL`
  const changed = [...own, ...commands.map(({ at, resourceId }) => ({ id: resourceId, at }))]
  const events = yield* sql<Event>`
    SELECT DISTINCT ON (events.occurred_at, events.id) events.id, type, ${kind === "event" ? sql`data::text` : sql`NULL`} AS data,
      occurred_at AT TIME ZONE 'UTC' AS "occurredAt"
    FROM ${changes(sql, kind === "event" ? ofEvent : changed)}, LATERAL (
      SELECT id, type, data, occurred_at FROM events
      WHERE project_id = ${projectId} AND occurred_at = change.at
        AND EXISTS (SELECT FROM json_each(data) AS about WHERE about.value ->> 'id' = change.id)
      LIMIT ${maxShown}::int
    ) events
    WHERE ${kind !== "event"} OR events.id = ${id}
    ORDER BY events.occurred_at DESC, events.id DESC LIMIT ${maxShown}::int`
  const deliveries = yield* sql<Delivery>`
    SELECT ${sql.literal(columnsOf("deliveries"))}
    FROM unnest(${events.map((event) => event.id)}::text[]) AS event (id), LATERAL (
      SELECT * FROM deliveries WHERE project_id = ${projectId} AND event_id = event.id LIMIT ${maxShown}::int
    ) deliveries
    ORDER BY deliveries.id DESC LIMIT ${maxShown}::int`
  const actions = yield* entries(sql, projectId, sql`target COLLATE "C" = ${id}`, maxShown)
  return { commands, actions, events, deliveries }
})

const changes = (sql: SqlClient.SqlClient, all: ReadonlyArray<Change>) => sql`
  unnest(${all.map(({ id }) => id)}::text[], ${all.map(({ at }) => at)}::timestamptz[]) AS change (id, at)`

/** The table of each kind of record, the columns with the id and the name, and a condition that its index states. */
const kinds = {
  project: ["projects", "project_id", "name"],
  delivery: ["deliveries", "id", "event_type"],
  event: ["events", "id", "type"],
  message: ["messages", "id", "status"],
  campaign: ["campaigns", "id", "name"],
  installation: ["installations", "id", "name"],
  replay: ["replays", "id", "state"],
  key: ["api_keys", "key_id", "name"],
  client: ["clients", "id", "display_name"],
  deal: ["deals", "id", "title"],
  note: ["notes", "id", "deal_id"],
  task: ["tasks", "id", "title"],
  ticket: ["tickets", "id", "subject"],
  conversation: ["conversations", "id", "client_id"],
  channel: ["channels", "id", "display_name"],
  segment: ["segments", "id", "name"],
  /** A command, by its idempotency key. The name that is shown is the id of the record that it changed. */
  command: ["idempotency_keys", "key", "resource_id"],
  request: ["idempotency_keys", "request_id", "operation"],
  trace: ["idempotency_keys", "trace_id", "operation"],
  /** A record that is no more, by the commands that have changed it. */
  removed: ["idempotency_keys", "resource_id", "operation", "operation IS NOT NULL"]
} as const satisfies Readonly<Record<string, readonly [table: string, id: string, name: string, condition?: string]>>

export type RecordKind = keyof typeof kinds

/** Where a search looks. It finds clients and deals also by the ids that callers have given them. */
const places = [
  ...Object.entries(kinds),
  ["client", ["clients", "external_id", "display_name"]] as const,
  ["deal", ["deals", "external_id", "title"]] as const
]

export const kindNames = Struct.keys(kinds)

interface FoundRecord {
  readonly kind: RecordKind
  readonly projectId: string
  readonly id: string
  readonly name: string
}

export const maxSearchedProjects = 500
export const maxFound = 10

/** The greatest character: a text followed by it sorts after every id that begins with the text. */
const greatest = "\u{10ffff}"

/**
 * Finds records whose ids begin with `start`, in one project. If `projectId` is null, searches the first `maxSearchedProjects` projects.
 * Each kind is read in a range of its primary key, or of an index of commands. Finds nothing if `start` is empty.
 */
export const findRecords = (sql: SqlClient.SqlClient, projectId: string | null, start: string) => {
  const parts = places.map(([kind, [table, column, name, condition = "true"]]): Statement.Fragment => {
    const inRange = sql`${sql.literal(column)} >= ${start} AND ${sql.literal(column)} < ${start + greatest}`
    const id = column === "external_id" ? "id" : column
    return sql`
      (SELECT ${sql.literal(`'${kind}'`)} AS kind, searched.project_id AS "projectId", record.id, record.name
      FROM searched, LATERAL (
        SELECT ${sql.literal(`${id} AS id, ${name} AS name FROM ${table} WHERE ${table}.project_id = searched.project_id`)}
          AND ${inRange} AND ${sql.literal(condition)} ORDER BY ${sql.literal(`${table}.${column}`)} LIMIT ${maxFound}::int
      ) record LIMIT ${maxFound}::int)`
  })
  if (start === "") return Effect.succeed([])
  return Effect.map(
    sql<FoundRecord>`
    WITH searched AS MATERIALIZED (
      SELECT project_id FROM projects ${projectId === null ? sql.literal("") : sql`WHERE project_id = ${projectId}`}
      ORDER BY project_id LIMIT ${maxSearchedProjects}::int
    )
    ${parts.reduce((all, part) => sql`${all} UNION ALL ${part}`)}`,
    distinct
  )
}

/**
 * Keeps each record once, because many commands may have one request, trace or record. Keeps the kind `removed` only for a record that no
 * table has.
 */
const distinct = (rows: ReadonlyArray<FoundRecord>): ReadonlyArray<FoundRecord> => {
  const seen = new Set<string>()
  return rows.filter(({ id, kind, projectId }) => {
    const isKnown = seen.has(JSON.stringify([projectId, id, kind === "removed" ? undefined : kind]))
    seen.add(JSON.stringify([projectId, id, kind])).add(JSON.stringify([projectId, id, undefined]))
    return !isKnown
  })
}
