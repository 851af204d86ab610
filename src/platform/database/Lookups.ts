/** Looks up single records by project and id. */
import { Effect } from "effect"
import type { SqlClient, SqlError, Statement } from "effect/sql"
import type { ProjectId } from "../../api/schema/Ids.ts"
import type { ServiceUnavailable } from "../../api/Problems.ts"
import { coalesce } from "./Coalesced.ts"
import { type Columns, selectList } from "./Columns.ts"
import { retryContended } from "./Database.ts"

interface Key {
  readonly projectId: ProjectId
  readonly id: string
}

/**
 * A condition on the keys of a batch that is always true. From its default selectivity the planner expects one key, however
 * many there are. Without it a plan for any number of keys looks more expensive than one for the keys of a small batch, and
 * PostgreSQL plans each small batch again, which takes as long as to run it.
 */
export const plannedOnce = "ordinal + 0 = ordinal"

/** Maximum number of records that one statement looks up. */
const maxBatch = 64

/**
 * Makes a function that looks up one record of a table, or returns `undefined`. The look-ups of one turn of the event
 * loop are one statement, with one row for each key in their order; the columns of a missing record are null.
 */
export const lookup = <Row extends { readonly id: string }>(
  sql: SqlClient.SqlClient,
  table: string,
  columns: Columns
): ((key: Key) => Effect.Effect<Row | undefined, ServiceUnavailable>) => {
  const record = sql.literal(selectList(columns, table))
  const from = sql(table)

  const one = ({ id, projectId }: Key) =>
    Effect.map(
      retryContended(sql<Row>`SELECT ${record} FROM ${from} WHERE project_id = ${projectId} AND id = ${id}`),
      ([row]) => [row]
    )
  const many = (keys: ReadonlyArray<Key>) =>
    Effect.map(
      retryContended(sql<Row | { readonly id: null }>`
        SELECT ${record}
        FROM unnest(${keys.map(({ projectId }) => projectId)}::text[], ${keys.map(({ id }) => id)}::text[])
               WITH ORDINALITY AS key (project_id, id, ordinal)
          LEFT JOIN ${from} ON ${from}.project_id = key.project_id AND ${from}.id = key.id
        WHERE ${sql.literal(plannedOnce)}
        ORDER BY ordinal`),
      (rows) => rows.map((row) => (row.id === null ? undefined : row))
    )

  // PostgreSQL answers a single look-up faster in its plain form.
  return coalesce(maxBatch, (keys) => {
    const [first] = keys
    return keys.length === 1 && first !== undefined ? one(first) : many(keys)
  })
}

/**
 * A statement that looks up the rows of `key`, which has `project_id`, `id` and `ordinal`. It returns one row for each, under
 * the condition `plannedOnce` and in the order of `ordinal`; the `id` of a missing record is null.
 */
export type LookupStatement<Row extends { readonly id: string }> = (
  key: Statement.Fragment
) => Statement.Statement<Row | { readonly id: null }>

/** Like `lookup`, by a statement of its own. */
export const lookupBy = <Row extends { readonly id: string }>(
  sql: SqlClient.SqlClient,
  found: LookupStatement<Row>
): ((key: Key) => Effect.Effect<Row | undefined, ServiceUnavailable>) =>
  coalesce(maxBatch, (keys) => {
    const [first] = keys
    return retryContended(
      keys.length === 1 && first !== undefined
        ? Effect.map(lookupOne(sql, found, first), (row) => [row])
        : Effect.map(found(several(sql, keys)), (rows) => rows.map(orUndefined))
    )
  })

/** Looks up one record by a statement of `lookupBy`, for operators, whose look-ups are few. */
export const lookupOne = <Row extends { readonly id: string }>(
  sql: SqlClient.SqlClient,
  found: LookupStatement<Row>,
  { id, projectId }: { readonly projectId: ProjectId; readonly id: string }
): Effect.Effect<Row | undefined, SqlError.SqlError> =>
  Effect.map(found(sql`(SELECT ${projectId}::text AS project_id, ${id}::text AS id, 1 AS ordinal) AS key`), ([row]) =>
    row === undefined ? undefined : orUndefined(row)
  )

const several = (sql: SqlClient.SqlClient, keys: ReadonlyArray<Key>): Statement.Fragment => sql`
  unnest(${keys.map(({ projectId }) => projectId)}::text[], ${keys.map(({ id }) => id)}::text[])
    WITH ORDINALITY AS key (project_id, id, ordinal)`

const orUndefined = <Row extends { readonly id: string }>(row: Row | { readonly id: null }): Row | undefined =>
  isFound(row) ? row : undefined

const isFound = <Row extends { readonly id: string }>(row: Row | { readonly id: null }): row is Row => row.id !== null
