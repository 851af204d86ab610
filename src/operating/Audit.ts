/**
 * The audit of operators' actions (contract §13). As a rule, the statement that carries out an action also records it. Commands that
 * run many statements record it last; the deletion of a project also records that it begins.
 */
import { Context, Effect } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import type { ProjectId } from "../api/schema/Ids.ts"
import { selectList } from "../sql/Columns.ts"
import { isIn, makeList, pageOf, type RangeByAge } from "./Lists.ts"

/** The actor of what the service does by itself. */
export const service = "service"

/**
 * The operator who acts. `actor` is the user of the operating system who runs the command; in the console, the user who issued the link of
 * the session, followed by ` (console)`.
 */
export class Operator extends Context.Service<Operator, { readonly actor: string }>()(
  "developer-api-service/operating/Audit/Operator"
) {}

export interface Audited {
  readonly actor: string
  /** The kind of the record and what was done, such as `delivery.retry`. */
  readonly action: string
  /** Id of the record that the action changes, or the column of the changed rows that has it. */
  readonly target: string | { readonly column: string }
  readonly detail?: Readonly<Record<string, unknown>>
  /** Columns of the changed rows to add to the detail. Each key is the name of a member of the detail. */
  readonly columns?: Readonly<Record<string, string>>
}

export interface Entry {
  readonly id: string
  readonly at: string
  readonly actor: string
  readonly action: string
  readonly target: string
  readonly detail: Readonly<Record<string, unknown>>
}

/** Returns a common table expression that records the action for each row of `changed (project_id)`, at the database's time. */
export const recordAction = (
  sql: SqlClient.SqlClient,
  { action, actor, columns = {}, detail = {}, target }: Audited,
  changed: string
): Statement.Fragment => sql`
  audited AS (
    INSERT INTO audit_entries (project_id, id, at, actor, action, target, detail)
    SELECT project_id, new_id('aud', now()), now(), ${actor}::text, ${action}::text, ${typeof target === "string" ? sql`${target}::text` : sql(target.column)},
      ${JSON.stringify(detail)}::jsonb || jsonb_build_object(${sql.csv(
        Object.entries(columns).map(([name, column]) => sql`${sql.literal(`'${name}'`)}, ${sql(column)}`)
      )})
    FROM ${sql(changed)}
  )`

/** Records an action that other statements have carried out. */
export const recordDone = Effect.fnUntraced(function* (projectId: ProjectId, action: Omit<Audited, "actor">) {
  const sql = yield* SqlClient.SqlClient
  const { actor } = yield* Operator
  yield* sql`
    WITH project AS (SELECT project_id FROM projects WHERE project_id = ${projectId}),
    ${recordAction(sql, { ...action, actor }, "project")}
    SELECT FROM project`
})

type ServiceEntry = Pick<Entry, "action" | "target"> & Partial<Pick<Entry, "detail">>

/** An INSERT that records an action, by the actor that `actor` selects. */
export const insertServiceEntry = (
  sql: SqlClient.SqlClient,
  { action, detail = {}, target }: ServiceEntry,
  actor: Statement.Fragment
): Statement.Fragment => sql`
  INSERT INTO service_audit (id, at, actor, action, target, detail)
  SELECT new_id('aud', now()), now(), actor, ${action}::text, ${target}::text, ${JSON.stringify(detail)}::jsonb
  FROM (${actor}) operator`

export const recordServiceAction = Effect.fnUntraced(function* (entry: ServiceEntry) {
  const sql = yield* SqlClient.SqlClient
  const { actor } = yield* Operator
  yield* sql`${insertServiceEntry(sql, entry, sql`SELECT ${actor}::text AS actor`)}`
})

/** Lists the actions that concern all projects, newest first. */
export const listServiceActions = Effect.fn("listServiceActions")(function* (range: RangeByAge) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<Entry>`
    SELECT ${sql.literal(entryColumns)} FROM service_audit WHERE ${isIn(sql, "aud", range)}
    ORDER BY id DESC LIMIT ${range.limit + 1}::int`
  return pageOf(rows, range.limit, ({ id }) => id)
})

export const listActions = makeList(
  "listActions",
  (sql, projectId, range: RangeByAge) => entries(sql, projectId, isIn(sql, "aud", range), range.limit + 1),
  ({ id }: Entry) => id
)

/** Lists the newest actions that match a condition, such as those on one record. */
export const entries = (sql: SqlClient.SqlClient, projectId: ProjectId, matches: Statement.Fragment, limit: number) =>
  sql<Entry>`
    SELECT ${sql.literal(entryColumns)} FROM audit_entries
    WHERE project_id = ${projectId} AND ${matches}
    ORDER BY id DESC LIMIT ${limit}::int`

const entryColumns = selectList({
  id: "id",
  at: ["at", "timestamptz"],
  actor: "actor",
  action: "action",
  target: "target",
  detail: "detail"
})
