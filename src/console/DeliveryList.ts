/**
 * Lists of deliveries, newest first. The primary key orders them by age. A page of a filtered list scans at most
 * `scanLimit` deliveries and links to the continuation of the scan; dead deliveries have an index.
 */
import type { SqlClient } from "effect/sql"
import type { DeliveryId, InstallationId, ProjectId } from "../api/Ids.ts"
import type { EventType } from "../api/integrations/Events.ts"
import { selected } from "../platform/Columns.ts"
import { firstIdAt } from "../platform/NewId.ts"
import type { State } from "../integrations/Deliveries.ts"
import { badge, type Html, html, link, nextPage, table, time } from "./Html.ts"
import { pageSize } from "./Page.ts"

/** Maximum number of deliveries that a page of a filtered list scans. */
const scanLimit = 10_000

interface Filter {
  readonly projectId: ProjectId
  readonly installationId: string | null
  readonly status: State | null
  readonly type: EventType | null
  readonly since: Date | null
  readonly until: Date | null
  /** The last id of the page before. */
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
  /** The last delivery that was scanned, and the number of all. */
  readonly last: DeliveryId
  readonly scanned: number
}

/** The condition of the index of dead deliveries (`deliveries_dead`). */
export const isDead = "finished_at IS NOT NULL AND coalesce(attempt_log -> -1 ->> 'statusCode', '') NOT LIKE '2__'"

type Found = ReadonlyArray<Row | { readonly id: null; readonly last: DeliveryId | null; readonly scanned: number }>

export const find = (sql: SqlClient.SqlClient, filter: Filter) => {
  const { cursor, installationId, projectId, since, status, type, until } = filter
  const isFiltered = installationId !== null || type !== null || status !== null
  const before =
    [cursor, until === null ? null : firstIdAt("dlv", until.getTime())].filter((id) => id !== null).toSorted()[0] ??
    null
  return sql<Found[number]>`
    WITH scanned AS MATERIALIZED (
      SELECT id, installation_id, event_id, status, attempts, dead_code, attempt_log -> -1 AS last_attempt,
        replay_id, created_at
      FROM deliveries
      WHERE project_id = ${projectId} AND id >= ${since === null ? "" : firstIdAt("dlv", since.getTime())}
        ${before === null ? sql.literal("") : sql`AND id < ${before}`} ${sql.literal(status === "dead" ? `AND ${isDead}` : "")}
      ORDER BY id DESC LIMIT ${isFiltered ? scanLimit : pageSize + 1}::int
    ),
    found AS (
      SELECT scanned.*, (SELECT type FROM events WHERE project_id = ${projectId} AND events.id = scanned.event_id) AS type
      FROM scanned
      WHERE (${installationId}::text IS NULL OR installation_id = ${installationId})
        AND (${status}::text IS NULL OR status = ${status})
        AND (${type}::text IS NULL OR (
          SELECT type FROM events WHERE project_id = ${projectId} AND events.id = scanned.event_id) = ${type})
      ORDER BY id DESC LIMIT ${pageSize + 1}::int
    )
    SELECT found.id, installation_id AS "installationId", status, type, attempts,
      coalesce(dead_code, last_attempt ->> 'statusCode', last_attempt ->> 'errorCode') AS code,
      replay_id IS NOT NULL AS "isReplay", ${sql.literal(selected({ createdAt: ["created_at", "timestamptz"] }))},
      bound.last, bound.scanned
    FROM (SELECT min(id) AS last, count(*)::int AS scanned FROM scanned) bound LEFT JOIN found ON true
    ORDER BY found.id DESC`
}

/** The query of the page of a filter, from a cursor on. */
const queryOf = (filter: Filter, cursor: string) => ({
  project: filter.projectId,
  installation: filter.installationId,
  status: filter.status,
  type: filter.type,
  since: filter.since?.toISOString(),
  until: filter.until?.toISOString(),
  cursor
})

/** Renders up to `limit` rows of the result of `find`, and the link to the next page. */
export const render = (filter: Filter, found: Found, limit = pageSize): Html => {
  const all = found.filter((row) => row.id !== null)
  const rows = all.slice(0, limit)
  const bound = found[0]
  const isFull = all.length > limit
  const hasMore = isFull || bound?.scanned === scanLimit
  const cursor = hasMore ? (isFull ? rows.at(-1)?.id : bound?.last) : null
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
  return html`${table("Deliveries, newest first", head, cells, "No deliveries.")}
  ${!isFull && hasMore ? html`<p class="empty">This page searched ${scanLimit} deliveries.</p>` : ""}
  ${nextPage("/console/deliveries", cursor ? queryOf(filter, cursor) : undefined, isFull ? "Older" : "Continue the search")}`
}
