/**
 * Lists of deliveries, the newest first. The primary key orders them by age. A page of a filtered list examines at most
 * `looksAt` deliveries and links to the search from there on; dead deliveries have an index.
 */
import type { SqlClient } from "effect/sql"
import type { DeliveryId, InstallationId, ProjectId } from "../api/Ids.ts"
import type { EventType } from "../api/integrations/Events.ts"
import { selected } from "../platform/Columns.ts"
import { firstIdAt } from "../integrations/Deliveries/Age.ts"
import type { State } from "../integrations/Deliveries/States.ts"
import { badge, type Html, html, href, link, older, table, time } from "./Html.ts"
import { pageSize } from "./Page.ts"

/** Maximum number of deliveries that a page of a filtered list examines. */
const looksAt = 10_000

export interface Filter {
  readonly projectId: ProjectId
  readonly installationId: string | null
  readonly status: State | null
  readonly type: EventType | null
  readonly since: Date | null
  readonly until: Date | null
  /** The id that the page comes after. */
  readonly cursor: string | null
}

interface Row {
  readonly id: DeliveryId
  readonly installationId: InstallationId
  readonly status: State
  readonly type: EventType
  readonly attempts: number
  readonly code: string | null
  readonly isReplay: boolean
  readonly createdAt: string
  /** Id of the last delivery that was looked at, and how many were. */
  readonly last: DeliveryId
  readonly looked: number
}

/** The condition of the index of dead deliveries (`deliveries_dead`). */
const indexed = "AND finished_at IS NOT NULL AND coalesce(attempt_log -> -1 ->> 'statusCode', '') NOT LIKE '2__'"

export const find = (sql: SqlClient.SqlClient, filter: Filter) => {
  const { cursor, installationId, projectId, since, status, type, until } = filter
  const isFiltered = installationId !== null || type !== null || status !== null
  const before = [cursor, until === null ? null : firstIdAt(until)].filter((id) => id !== null).toSorted()[0] ?? null
  return sql<Row | { readonly id: null; readonly last: DeliveryId | null; readonly looked: number }>`
    WITH looked AS MATERIALIZED (
      SELECT id, installation_id, event_id, status, attempts, dead_code, attempt_log -> -1 AS last_attempt,
        replay_id, created_at
      FROM deliveries
      WHERE project_id = ${projectId} AND id >= ${since === null ? "" : firstIdAt(since)}
        ${before === null ? sql.literal("") : sql`AND id < ${before}`} ${sql.literal(status === "dead" ? indexed : "")}
      ORDER BY id DESC LIMIT ${isFiltered ? looksAt : pageSize + 1}::int
    ),
    found AS (
      SELECT looked.*, (SELECT type FROM events WHERE project_id = ${projectId} AND events.id = looked.event_id) AS type
      FROM looked
      WHERE (${installationId}::text IS NULL OR installation_id = ${installationId})
        AND (${status}::text IS NULL OR status = ${status})
        AND (${type}::text IS NULL OR (
          SELECT type FROM events WHERE project_id = ${projectId} AND events.id = looked.event_id) = ${type})
      ORDER BY id DESC LIMIT ${pageSize + 1}::int
    )
    SELECT found.id, installation_id AS "installationId", status, type, attempts,
      coalesce(dead_code, last_attempt ->> 'statusCode', last_attempt ->> 'errorCode') AS code,
      replay_id IS NOT NULL AS "isReplay", ${sql.literal(selected({ createdAt: ["created_at", "timestamptz"] }))},
      bound.last, bound.looked
    FROM (SELECT min(id) AS last, count(*)::int AS looked FROM looked) bound LEFT JOIN found ON true
    ORDER BY found.id DESC`
}

type Found = ReadonlyArray<Row | { readonly id: null; readonly last: DeliveryId | null; readonly looked: number }>

/** The query of the page that a filter describes, from another cursor on. */
export const queryOf = (filter: Filter, cursor: string | null = null) => ({
  project: filter.projectId,
  installation: filter.installationId,
  status: filter.status,
  type: filter.type,
  since: filter.since?.toISOString(),
  until: filter.until?.toISOString(),
  cursor
})

/** Renders what `find` has found, up to `limit` rows, and the way on. */
export const render = (filter: Filter, found: Found, limit = pageSize): Html => {
  const all = found.filter((row) => row.id !== null)
  const rows = all.slice(0, limit)
  const bound = found[0]
  const isFull = all.length > limit
  const hasMore = isFull || bound?.looked === looksAt
  const cursor = isFull ? rows.at(-1)?.id : bound?.last
  const cells = rows.map((row) => [
    link("/console/delivery", { project: filter.projectId, id: row.id }, row.id),
    time(row.createdAt),
    link("/console/webhook", { project: filter.projectId, installation: row.installationId }, row.installationId),
    row.type,
    html`${badge(row.status)}${row.isReplay ? " (replay)" : ""}`,
    row.attempts,
    row.code
  ])
  const head = ["Delivery", "Created", "Installation", "Event", "State", "Attempts", "Last answer"]
  return html`${table("Deliveries, the newest first", head, cells, "No deliveries here.")}
  ${!isFull && hasMore ? html`<p class="empty">The search has gone back ${looksAt} deliveries so far.</p>` : ""}
  ${hasMore && cursor !== undefined && cursor !== null ? older("/console/deliveries", queryOf(filter, cursor), isFull ? "Older" : "Search further back") : ""}`
}

/** The list of a filter. */
export const address = (filter: Filter): string => href("/console/deliveries", queryOf(filter))
