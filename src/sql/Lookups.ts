/** Look-ups of records by project and id, in batches. */
import { Effect, Predicate } from "effect"
import type { SqlClient, SqlError, Statement } from "effect/sql"
import type { ServiceUnavailable } from "../api/Problems.ts"
import type { ProjectId } from "../api/schema/Ids.ts"
import { coalesce } from "./Batches.ts"
import { type Columns, selectList } from "./Columns.ts"
import { retryContended } from "./Database.ts"

interface Key {
  readonly projectId: ProjectId
  readonly id: string
}

/**
 * A condition on the keys of a batch. It is always true, but its default selectivity makes the planner expect one key, however
 * many there are. Without the condition, the generic plan looks more expensive than a plan for a small batch. PostgreSQL would
 * then plan each small batch again, which takes as long as the batch itself.
 */
export const plannedOnce = "ordinal + 0 = ordinal"

/** Maximum number of records that one statement looks up. */
const maxBatch = 64

/** Makes a statement that looks up records of a table by their ids. */
export const recordsOf =
  <Row extends { readonly id: string }>(
    sql: SqlClient.SqlClient,
    table: string,
    columns: Columns
  ): LookupStatement<Row> =>
  (key) =>
    sql`
    SELECT ${sql.literal(selectList(columns, table))} FROM ${key}
      LEFT JOIN ${sql(table)} ON ${sql(table)}.project_id = key.project_id AND ${sql(table)}.id = key.id
    WHERE ${sql.literal(plannedOnce)}
    ORDER BY ordinal`

/**
 * Makes a function that looks up one record of a table by its id. It fails with the problem `missing` if the record does not
 * exist. The look-ups of one turn of the event loop are one statement, which returns a row for each key, in order. All columns
 * of a missing record are null.
 */
export const lookup = <Row extends { readonly id: string }, Missing>(
  sql: SqlClient.SqlClient,
  table: string,
  columns: Columns,
  missing: () => Missing
) => {
  const record = sql.literal(selectList(columns, table))
  const from = sql(table)
  // A single look-up is faster without `unnest` and join.
  const find = findInBatches(sql, recordsOf<Row>(sql, table, columns), ({ id, projectId }) =>
    Effect.map(sql<Row>`SELECT ${record} FROM ${from} WHERE project_id = ${projectId} AND id = ${id}`, ([row]) => row)
  )
  return (projectId: ProjectId, id: Row["id"]) =>
    Effect.filterOrFail(find({ projectId, id }), Predicate.isNotUndefined, missing)
}

/**
 * A statement that looks up the keys in `key`, a FROM item with `project_id`, `id` and `ordinal`. The statement has the
 * condition `plannedOnce`, and returns one row for each key in the order of `ordinal`. The `id` of a missing record is null.
 */
export type LookupStatement<Row extends { readonly id: string }> = (
  key: Statement.Fragment
) => Statement.Statement<Row | { readonly id: null }>

/** Like `lookup`, but with a statement of the caller. The function returns `undefined` for a missing record. */
export const lookupBy = <Row extends { readonly id: string }>(sql: SqlClient.SqlClient, found: LookupStatement<Row>) =>
  findInBatches(sql, found, (key) => lookupOne(sql, found, key))

const findInBatches = <Row extends { readonly id: string }>(
  sql: SqlClient.SqlClient,
  found: LookupStatement<Row>,
  one: (key: Key) => Effect.Effect<Row | undefined, SqlError.SqlError>
): ((key: Key) => Effect.Effect<Row | undefined, ServiceUnavailable>) =>
  coalesce(maxBatch, (keys) => {
    const [first] = keys
    return retryContended(
      keys.length === 1 && first !== undefined
        ? Effect.map(one(first), (row) => [row])
        : Effect.map(found(several(sql, keys)), (rows) => rows.map(orUndefined))
    )
  })

/**
 * Looks up one record at once, not in a batch, by a statement that `lookupBy` could use. Commands of operators call this
 * function directly.
 */
export const lookupOne = <Row extends { readonly id: string }>(
  sql: SqlClient.SqlClient,
  found: LookupStatement<Row>,
  { id, projectId }: Key
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
