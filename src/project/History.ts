/**
 * What has happened to a record: the commands of the API and the actions of operators that have changed it, its events, and their
 * deliveries. The history of a request, a trace or an idempotency key is that of its commands.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { ProjectId } from "../api/schema/Ids.ts"
import { columnsOf, type Delivery } from "../integrations/deliveries/DeliveryList.ts"
import { selectList } from "../sql/Columns.ts"
import { entries } from "../operators/Audit.ts"
import type { Kind } from "./IdSearch.ts"

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

export interface Command {
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

export interface Event {
  readonly id: string
  readonly type: string
  readonly occurredAt: string
  /** As JSON; null except in the history of the event itself. */
  readonly data: string | null
}

/** The columns by which commands are found; those of other kinds are found by the record that they have changed. */
const columns: Partial<Record<Kind, string>> = { command: "key", request: "request_id", trace: "trace_id" }

/** The times of events that a record itself has. They stay when its commands are no longer stored. */
const ownTimes: Partial<Record<Kind, readonly [table: string, times: string]>> = {
  client: ["clients", "created_at, updated_at"],
  deal: ["deals", "created_at, updated_at"],
  task: ["tasks", "created_at, completed_at"]
}

/** A record, and a time at which it was changed. */
interface Change {
  readonly id: string
  readonly at: string
}

/**
 * Reads a history, newest first. Events have no index by record. But an event has the time of its change, so only the events of these
 * times are read.
 */
export const historyOf = Effect.fn("historyOf")(function* (
  projectId: ProjectId,
  { id, kind }: { readonly kind: Kind; readonly id: string }
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
  const column = columns[kind]
  const commands = yield* sql<Command>`
    SELECT command.*, api_keys.name AS "keyName" FROM (
      SELECT ${sql.literal(selectList(commandColumns))} FROM idempotency_keys
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
