/** Searches records, requests and traces by the beginning of an id, for the console and the command `find`. */
import { Effect, Struct } from "effect"
import { SqlClient, type Statement } from "effect/sql"

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

export type Kind = keyof typeof kinds
export const kindNames = Struct.keys(kinds)

export interface Found {
  readonly kind: Kind
  readonly projectId: string
  readonly id: string
  readonly name: string
}

export const maxProjects = 500
export const maxFound = 10

/** The greatest character: a text followed by it sorts after every id that begins with the text. */
const greatest = "\u{10ffff}"

/**
 * Finds records whose ids begin with `start`, in one project. If `projectId` is null, searches the first `maxProjects` projects.
 * Each kind is read in a range of its primary key, or of an index of commands.
 */
export const find = (sql: SqlClient.SqlClient, projectId: string | null, start: string) => {
  const parts = Object.entries(kinds).map(([kind, [table, id, name, condition = "true"]]): Statement.Fragment => {
    const inRange = sql`${sql.literal(id)} >= ${start} AND ${sql.literal(id)} < ${start + greatest}`
    return sql`
      (SELECT ${sql.literal(`'${kind}'`)} AS kind, searched.project_id AS "projectId", record.id, record.name
      FROM searched, LATERAL (
        SELECT ${sql.literal(`${id} AS id, ${name} AS name FROM ${table} WHERE ${table}.project_id = searched.project_id`)}
          AND ${inRange} AND ${sql.literal(condition)} ORDER BY ${sql.literal(`${table}.${id}`)} LIMIT ${maxFound}::int
      ) record LIMIT ${maxFound}::int)`
  })
  return Effect.map(
    sql<Found>`
    WITH searched AS MATERIALIZED (
      SELECT project_id FROM projects ${projectId === null ? sql.literal("") : sql`WHERE project_id = ${projectId}`}
      ORDER BY project_id LIMIT ${maxProjects}::int
    )
    ${parts.reduce((all, part) => sql`${all} UNION ALL ${part}`)}`,
    distinct
  )
}

/** Many commands may have one request, trace or record. A record with commands is removed only if its table lacks it. */
const distinct = (rows: ReadonlyArray<Found>): ReadonlyArray<Found> => {
  const seen = new Set<string>()
  return rows.filter(({ id, kind, projectId }) => {
    const isKnown = seen.has(JSON.stringify([projectId, id, kind === "removed" ? undefined : kind]))
    seen.add(JSON.stringify([projectId, id, kind])).add(JSON.stringify([projectId, id, undefined]))
    return !isKnown
  })
}

/** Searches by `find` with the client of the context. */
export const findRecords = Effect.fn("findRecords")(function* (projectId: string | null, start: string) {
  return start === "" ? [] : yield* find(yield* SqlClient.SqlClient, projectId, start)
})
