/** The list of deliveries that operators see, in commands and in the console. The primary key orders them by age. */
import { Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { DeliveryId, InstallationId, ProjectId } from "../api/Ids.ts"
import type { EventType } from "../api/integrations/Events.ts"
import { selected } from "../platform/Columns.ts"
import { firstIdAt } from "../platform/NewId.ts"
import { type Found, foundOf, type Range, scanLimit } from "../platform/Search.ts"
import type { State } from "./Deliveries/States.ts"

/** A delivery, with what its last attempt came to. */
export interface Delivery {
  readonly deliveryId: DeliveryId
  readonly installationId: InstallationId
  readonly eventType: EventType
  readonly status: State
  readonly attempts: number
  /** RFC 3339; null unless it is pending. */
  readonly nextAttemptAt: string | null
  readonly lastStatusCode: number | null
  readonly lastErrorCode: string | null
  readonly createdAt: string
}

/** A delivery of the list. */
export interface Listed extends Delivery {
  /** The delivery that it repeats, where a replay has made it. */
  readonly replayOf: DeliveryId | null
}

export interface Filter {
  readonly installationId: string | null
  readonly status: State | null
  readonly type: EventType | null
  readonly since: Date | null
  readonly until: Date | null
}

/** The condition of the index of dead deliveries (`deliveries_dead`). */
export const isDead = "finished_at IS NOT NULL AND coalesce(attempt_log -> -1 ->> 'statusCode', '') NOT LIKE '2__'"

/** The columns of a delivery, from `deliveries` or a part of it, and from the type of its event. */
export const columnsOf = (delivery: string, type: string) => `
  ${delivery}.id AS "deliveryId", ${delivery}.installation_id AS "installationId", ${type} AS "eventType",
  ${delivery}.status, ${delivery}.attempts,
  ${selected({
    nextAttemptAt: [`CASE WHEN ${delivery}.status = 'pending' THEN ${delivery}.available_at END`, "timestamptz"]
  })},
  (attempt_log -> -1 ->> 'statusCode')::int AS "lastStatusCode",
  coalesce(dead_code, attempt_log -> -1 ->> 'errorCode') AS "lastErrorCode",
  ${selected({ createdAt: ["created_at", "timestamptz"], replayOf: "replay_of" }, delivery)}`

type Row = (Listed | { readonly deliveryId: null }) & { readonly last: string | null; readonly scanned: number }

/** Finds deliveries of a page, newest first, among the next `scanLimit`. Dead ones have an index. */
export const find = (
  sql: SqlClient.SqlClient,
  projectId: ProjectId,
  filter: Filter,
  { after, limit }: Range
): Effect.Effect<Found<Listed>, SqlError.SqlError> => {
  const { installationId, since, status, type, until } = filter
  const isFiltered = installationId !== null || type !== null || status !== null
  // In the text of the statement, so that a plan for any values is as good as one for these.
  const ends = [after, until === null ? null : firstIdAt("dlv", until.getTime())].filter((id) => id !== null)
  return sql<Row>`
    WITH scanned AS MATERIALIZED (
      SELECT id, installation_id, event_id, status, attempts, available_at, dead_code, attempt_log, replay_of, created_at
      FROM deliveries
      WHERE project_id = ${projectId} AND id >= ${since === null ? "" : firstIdAt("dlv", since.getTime())}
        ${ends.length === 0 ? sql.literal("") : sql`AND id < ${ends.toSorted()[0]}`}
        ${sql.literal(status === "dead" ? `AND ${isDead}` : "")}
      ORDER BY id DESC LIMIT ${isFiltered ? scanLimit : limit + 1}::int
    ),
    typed AS (
      SELECT scanned.*, (
        SELECT type FROM events WHERE project_id = ${projectId} AND events.id = scanned.event_id
      ) AS type FROM scanned
    ),
    found AS (
      SELECT * FROM typed
      WHERE (${installationId}::text IS NULL OR installation_id = ${installationId})
        AND (${status}::text IS NULL OR status = ${status}) AND (${type}::text IS NULL OR type = ${type})
      ORDER BY id DESC LIMIT ${limit + 1}::int
    )
    SELECT ${sql.literal(columnsOf("found", "found.type"))}, bound.last, bound.scanned
    FROM (SELECT min(id) AS last, count(*)::int AS scanned FROM scanned) bound LEFT JOIN found ON true
    ORDER BY found.id DESC`.pipe(
    Effect.map((rows) => {
      const found = rows.flatMap((row) => {
        if (row.deliveryId === null) return []
        const { last: _, scanned: __, ...delivery } = row
        return [delivery]
      })
      const [bound = { last: null, scanned: 0 }] = rows
      return foundOf(found, limit, ({ deliveryId }) => deliveryId, bound)
    })
  )
}
