/**
 * The read model of deliveries: the columns of a delivery that the API, the commands and the console show, and the queries for
 * lists.
 */
import { Effect, Struct } from "effect"
import type { SqlClient, SqlError, Statement } from "effect/sql"
import type { InstallationId, ProjectId } from "../../api/schema/Ids.ts"
import {
  type Delivery as Shown,
  DeliveryAttempt,
  type DeliveryDetails,
  type DeliveryStatus,
  deliveryStatuses,
  type DeliveryStatusFilter
} from "../../api/integrations/Deliveries.ts"
import { type EventType, eventTypes } from "../../api/integrations/Events.ts"
import { selectList } from "../../sql/Columns.ts"
import { idOf, type Window } from "../../http/pages/Pages.ts"
import { type Found, foundOf, idsIn, isIn, type RangeByAge, type Scanned, scanLimit } from "../../operating/Lists.ts"
import type { State } from "./States.ts"
import { nextAttemptAt } from "../WebhookList.ts"
import { type LookupStatement, plannedOnce } from "../../sql/Lookups.ts"

/** A delivery as the API shows it, except that a delivery in flight is `delivering` instead of `pending`. */
export interface Delivery extends Omit<Shown, "status"> {
  readonly installationId: InstallationId
  readonly status: State
}

export interface Filter {
  readonly installationId: string | null
  readonly status: State | null
  readonly type: EventType | null
  /** The error code or the status code of the last answer, as lists show it. */
  readonly answer: string | null
}

/** A SQL condition: the delivery is dead, and no replay has delivered it. The index `deliveries_left_dead` has the same condition. */
export const isDead =
  "finished_at IS NOT NULL AND replayed_by IS NULL AND coalesce(attempt_log -> -1 ->> 'statusCode', '') NOT LIKE '2__'"

/** The columns of a delivery, in the order of the contract. `delivery` names a table with the columns of `deliveries`. */
export const columnsOf = (delivery: string) =>
  selectList({
    id: `${delivery}.id`,
    installationId: `${delivery}.installation_id`,
    eventId: `${delivery}.event_id`,
    eventType: `${delivery}.event_type`,
    status: `${delivery}.status`,
    attempts: `${delivery}.attempts`,
    nextAttemptAt: `(
      SELECT ${nextAttemptAt(`${delivery}.available_at`)} FROM webhooks JOIN endpoint_health USING (project_id, installation_id)
      WHERE project_id = ${delivery}.project_id AND installation_id = ${delivery}.installation_id
    )`,
    lastStatusCode: "(attempt_log -> -1 ->> 'statusCode')::int",
    lastErrorCode: "coalesce(dead_code, attempt_log -> -1 ->> 'errorCode')",
    replayOf: `${delivery}.replay_of`,
    replayedBy: `${delivery}.replayed_by`,
    createdAt: [`${delivery}.created_at`, "timestamptz"],
    finishedAt: [`${delivery}.finished_at`, "timestamptz"]
  })

/**
 * The state of a delivery as the API shows it. The expression is the same as in the index `deliveries_listed`, so that
 * PostgreSQL uses the index.
 */
const state = `(CASE
  WHEN finished_at IS NULL THEN 'pending' COLLATE "C"
  WHEN coalesce(attempt_log -> -1 ->> 'statusCode', '') LIKE '2__' THEN 'delivered'
  WHEN replayed_by IS NOT NULL THEN 'replayed'
  ELSE 'dead'
END)`

interface Selected {
  readonly projectId: ProjectId
  readonly installationId: string
  /** All states if absent. */
  readonly states?: ReadonlyArray<DeliveryStatus> | undefined
  /** All types if absent. */
  readonly types?: ReadonlyArray<EventType> | undefined
  /** Selects only ids greater than this id. A fragment is a subquery that returns the id. */
  readonly above?: string | Statement.Fragment | undefined
  /** Selects only ids less than this id. A fragment is a subquery that returns the id. */
  readonly below?: string | Statement.Fragment | undefined
  readonly order: "ASC" | "DESC"
  readonly limit: number
}

/**
 * A query of all columns of the selected deliveries, ordered by id. Without `states` and `types`, it reads the index
 * `deliveries_by_installation`. Otherwise it merges parts of the index `deliveries_listed`, one for each state and type. Each
 * part is ordered by id, so hardly more deliveries are read than returned. OFFSET 0 keeps PostgreSQL from repeating the
 * parameters in each part. The part `WHERE false` keeps the SQL valid if `types` is empty.
 */
const inOrder = (
  sql: SqlClient.SqlClient,
  { above, below, installationId, limit, order, projectId, states, types }: Selected
): Statement.Fragment => {
  const range = `${above === undefined ? "" : "AND id > above"} ${below === undefined ? "" : "AND id < below"}`
  const ordered = `ORDER BY id ${order} LIMIT ${limit}`
  const isFiltered = states !== undefined || types !== undefined
  const conditions = (states ?? [...deliveryStatuses, "replayed"]).flatMap((status) =>
    (types ?? eventTypes).map((type) => `AND ${state} = '${status}' AND event_type = '${type}'`)
  )
  const parts = (isFiltered ? conditions : [""]).map(
    (condition) => `
    UNION ALL (SELECT * FROM deliveries
     WHERE project_id = given.project AND installation_id = given.installation ${condition} ${range} ${ordered})`
  )
  return sql`
    SELECT parts.* FROM (
      SELECT ${projectId}::text AS project, ${installationId}::text AS installation, ${above ?? null}::text AS above,
        ${below ?? null}::text AS below OFFSET 0
    ) given, LATERAL (SELECT * FROM deliveries WHERE false ${sql.literal(`${parts.join("")} ${ordered}`)}) parts`
}

const lastAnswer = "coalesce(dead_code, attempt_log -> -1 ->> 'errorCode', attempt_log -> -1 ->> 'statusCode')"

/**
 * Finds a page of deliveries, newest first. Indexes select the deliveries of an installation by state and type, and the dead
 * deliveries of a project. Other conditions are checked row by row, for example whether an open delivery is `pending` or
 * `delivering`. One call checks at most `scanLimit` deliveries. The check reads few columns; all columns are read for the
 * deliveries of the page only.
 */
export const find = (
  sql: SqlClient.SqlClient,
  projectId: ProjectId,
  filter: Filter,
  range: RangeByAge
): Effect.Effect<Found<Delivery>, SqlError.SqlError> => {
  const { answer, installationId, status, type } = filter
  const { limit } = range
  const isUnfinished = status === "pending" || status === "delivering"
  const isFiltered = answer !== null || (installationId === null ? type !== null || status !== null : isUnfinished)
  const rows = isFiltered ? scanLimit : limit + 1
  const selected =
    installationId === null
      ? sql`SELECT * FROM deliveries
      WHERE project_id = ${projectId} AND ${isIn(sql, "dlv", range)}
        ${sql.literal(status === "dead" ? `AND ${isDead}` : "")}
      ORDER BY id DESC LIMIT ${rows}::int`
      : inOrder(sql, {
          projectId,
          installationId,
          states: status === null ? undefined : [isUnfinished ? "pending" : status],
          types: type === null ? undefined : [type],
          ...idsIn("dlv", range),
          order: "DESC",
          limit: rows
        })
  return sql<(Delivery | { readonly id: null }) & Scanned>`
    WITH scanned AS MATERIALIZED (
      SELECT id, status, event_type${sql.literal(answer === null ? "" : `, ${lastAnswer} AS answer`)} FROM (${selected}) selected
    ),
    found AS (
      SELECT delivery.* FROM (
        SELECT id FROM scanned
        WHERE (${status}::text IS NULL OR status = ${status}) AND (${type}::text IS NULL OR event_type = ${type})
          ${answer === null ? sql.literal("") : sql`AND answer = ${answer}`}
        ORDER BY id DESC LIMIT ${limit + 1}::int
      ) listed, LATERAL (SELECT * FROM deliveries WHERE project_id = ${projectId} AND id = listed.id OFFSET 0) delivery
    )
    SELECT ${sql.literal(columnsOf("found"))}, bound.last, bound.scanned
    FROM (SELECT min(id) AS last, count(*)::int AS scanned FROM scanned) bound LEFT JOIN found ON true
    ORDER BY found.id DESC`.pipe(Effect.map((rows) => foundOf<Delivery>(rows, limit)))
}

export interface PageFilter {
  readonly status: DeliveryStatusFilter
  readonly eventType?: EventType | undefined
}

export const page = (
  sql: SqlClient.SqlClient,
  projectId: ProjectId,
  installationId: InstallationId,
  { eventType, status }: PageFilter,
  window: Window
) => {
  const selected = inOrder(sql, {
    projectId,
    installationId,
    states: status === "all" ? undefined : [status],
    types: eventType === undefined ? undefined : [eventType],
    below: window.after && idOf(sql, window.after),
    order: "DESC",
    limit: window.limit
  })
  return sql<Delivery>`
    SELECT ${sql.literal(columnsOf("delivery"))} FROM (${selected}) AS delivery ORDER BY delivery.id DESC`
}

/**
 * An entry of the attempt log. Entries for lost leases and entries of earlier versions of the service have no `endpointUrl`.
 * Entries without a stored answer have no `responseBody`.
 */
type LoggedAttempt = Omit<DeliveryAttempt, "endpointUrl" | "responseBody"> &
  Partial<Pick<DeliveryAttempt, "endpointUrl" | "responseBody">>

export interface Details extends Delivery {
  readonly log: ReadonlyArray<LoggedAttempt>
  /** Why the delivery is dead, if its last attempt is not the reason (for example, its webhook was disabled). Otherwise null. */
  readonly deadCode: string | null
  readonly eventTime: string
  readonly eventData: DeliveryDetails["event"]["data"]
  readonly traceparent: string
}

const columns = `${columnsOf("deliveries")}, deliveries.attempt_log AS log, dead_code AS "deadCode",
  events.data AS "eventData", traceparent, ${selectList({ eventTime: ["occurred_at", "timestamptz"] })}`

export const details =
  (sql: SqlClient.SqlClient): LookupStatement<Details> =>
  (key) =>
    sql`
    SELECT ${sql.literal(columns)} FROM ${key}
      LEFT JOIN deliveries ON deliveries.project_id = key.project_id AND deliveries.id = key.id
      LEFT JOIN events ON events.project_id = deliveries.project_id AND events.id = deliveries.event_id
    WHERE ${sql.literal(plannedOnce)}
    ORDER BY ordinal`

/** Returns the attempts of a delivery with all members in the order of the contract. jsonb does not keep this order. */
export const attemptsOf = ({ log }: Details): ReadonlyArray<DeliveryAttempt> =>
  log.map((attempt) =>
    Struct.pick({ endpointUrl: null, responseBody: null, ...attempt }, Struct.keys(DeliveryAttempt.fields))
  )
