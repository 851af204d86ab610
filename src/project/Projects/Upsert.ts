/** Creates or updates the records of one part of a project file, in one statement and two more for each list. */
import { Effect } from "effect"
import type { Statement } from "effect/sql"
import type { SqlClient as Sql } from "effect/sql/SqlClient"
import type { ProjectId } from "../../api/schema/Ids.ts"
import { type Column, listOf } from "../../sql/Columns.ts"
import { type FileRecord, hasValues, type List, type Part } from "../Parts.ts"

type Fragment = Statement.Fragment

export interface Counts {
  readonly created: number
  readonly updated: number
  readonly unchanged: number
}

/** The records as a set of rows, not as one JSON array, because PostgreSQL limits an array to 256 MiB. */
const elementsOf = (sql: Sql, records: ReadonlyArray<FileRecord>) =>
  sql`unnest(${records.map((record) => JSON.stringify(record))}::jsonb[])`

/** The column definitions of `jsonb_to_record`: the members of `columns`, with types. */
const typed = (sql: Sql, columns: ReadonlyArray<Column>) =>
  sql.csv(columns.map(({ member, type }) => sql`${sql(member)} ${sql.literal(type)}`))

/**
 * Applies records in which `flatten` (`Parts.ts`) has replaced groups by members with a column each. For values that a file does
 * not set, the UPDATE uses `old`, the stored record. If the UPDATE waits for a lock, PostgreSQL reads `old` again, so values
 * that were committed meanwhile are kept.
 */
export const upsert = Effect.fnUntraced(function* (
  sql: Sql,
  part: Part,
  projectId: ProjectId,
  now: Date,
  records: ReadonlyArray<FileRecord>
) {
  const table = sql(part.table)
  const given = listOf(part.columns)
  const key = listOf(part.key ?? {})
  const derived = Object.entries(part.derived ?? {})
  const lists = Object.entries(part.lists ?? {})
  const columns = (of: ReadonlyArray<string>, prefix = "") =>
    sql.csv(of.map((column) => sql`${sql.literal(prefix)}${sql(column)}`))
  const givenColumns = given.map(({ column }) => column)
  const member = (from: Column, otherwise: string) =>
    sql.literal(`CASE WHEN file.members ? '${from.member}' THEN file."${from.member}" ELSE ${otherwise} END`)
  const same = sql.and([
    sql`old.project_id = file.project_id`,
    sql`old.id = file.id`,
    ...key.map(({ column, member }) => sql`old.${sql(column)} = file.${sql(member)}`)
  ])
  const next = given.map((from) => member(from, `old.${from.column}`))
  const initial = given.map((from) => member(from, part.initial?.[from.member] ?? "NULL"))

  const unique = given.find(({ member }) => member === part.unique)
  if (unique !== undefined) yield* release(sql, part.table, unique, projectId, records)
  const rows = yield* sql<{ readonly created: ReadonlyArray<string>; readonly updated: ReadonlyArray<string> }>`
    WITH file AS (
      -- The project's id is a column. With a constant, a plan without statistics may expect few rows and read the whole project.
      SELECT ${projectId}::text COLLATE "C" AS project_id, ${now}::timestamptz AS applied_at, record.members, value.*
      FROM ${elementsOf(sql, records)} AS record (members),
           jsonb_to_record(record.members) AS value (id text, ${typed(sql, [...key, ...given])})
    ),
    updated AS (
      UPDATE ${table} AS old
      SET ${sql.csv([
        ...givenColumns.map((column, index) => sql`${sql(column)} = ${next[index] ?? sql`NULL`}`),
        ...derived.map(([column, { changed }]) => sql`${sql(column)} = ${sql.literal(changed)}`)
      ])}
      FROM file
      WHERE ${same}
        AND ${sql.or([
          sql`(${columns(givenColumns, "old.")}) IS DISTINCT FROM (${sql.csv(next)})`,
          ...lists.map(([name, list]) => differs(sql, projectId, name, list))
        ])}
      RETURNING old.id
    ),
    created AS (
      INSERT INTO ${table} (
        project_id, id, ${columns([...key.map(({ column }) => column), ...givenColumns, ...derived.map(([column]) => column)])}
      )
      SELECT ${projectId}, file.id, ${sql.csv([
        ...key.map(({ member }) => sql`file.${sql(member)}`),
        ...initial,
        ...derived.map(([, { created }]) => sql.literal(created))
      ])}
      FROM file
      WHERE NOT EXISTS (SELECT FROM ${table} AS old WHERE ${same})
      RETURNING id
    )
    SELECT ARRAY(SELECT id FROM created) AS created, ARRAY(SELECT id FROM updated) AS updated`
  const { created = [], updated = [] } = rows[0] ?? {}
  const changed = new Set([...created, ...updated])
  const differing = records.filter(({ id }) => changed.has(id))
  for (const [name, list] of lists) yield* replace(sql, name, list, projectId, differing)
  return {
    created: created.length,
    updated: updated.length,
    unchanged: records.length - created.length - updated.length
  } satisfies Counts
})

/**
 * Frees the unique values that the file changes. PostgreSQL checks each changed row at once, so two records could not exchange theirs.
 * Until the end of the transaction, a changed value is replaced by one that is too long for any other record to have.
 */
const release = (sql: Sql, table: string, unique: Column, projectId: ProjectId, records: ReadonlyArray<FileRecord>) => {
  const column = sql(unique.column)
  const { member } = unique
  const given = records.flatMap(({ id, [member]: value }) => (value === undefined ? [] : [{ id, [member]: value }]))
  return sql`
    UPDATE ${sql(table)} AS old SET ${column} = repeat(' ', 161) || old.id
    FROM (
      SELECT ${projectId}::text COLLATE "C" AS project_id, value.*
      FROM ${elementsOf(sql, given)} AS record (members),
           jsonb_to_record(record.members) AS value (id text, ${typed(sql, [unique])})
    ) AS file
    WHERE old.project_id = file.project_id AND old.id = file.id AND old.${column} IS NOT NULL
      AND old.${column} IS DISTINCT FROM file.${sql(member)}`
}

/** Whether a list differs between `file`, a record of the project file, and `old`, the stored record. */
const differs = (sql: Sql, projectId: ProjectId, name: string, list: List): Fragment => {
  const items = listOf(list.items)
  const item = hasValues(list)
    ? items.map(({ column }) => `item.${column}`).join()
    : `jsonb_build_object(${items.map(({ column, member }) => `'${member}', item.${column}`).join(", ")})`
  return sql`
    (file.members ? ${sql.literal(`'${name}'`)} AND (file.members -> ${sql.literal(`'${name}'`)}) IS DISTINCT FROM (
      SELECT coalesce(jsonb_agg(${sql.literal(item)} ORDER BY item.position), '[]')
      FROM ${sql(list.table)} AS item WHERE item.project_id = ${projectId} AND item.${sql(list.owner)} = old.id
    ))`
}

/**
 * Replaces the lists of stored records. An item may move from one list to another, so all old items are deleted first.
 * Constraints on items must be deferred to the end of the transaction.
 */
const replace = Effect.fnUntraced(function* (
  sql: Sql,
  name: string,
  list: List,
  projectId: ProjectId,
  records: ReadonlyArray<FileRecord>
) {
  const given = records.filter((record) => record[name] !== undefined)
  if (given.length === 0) return
  const table = sql(list.table)
  const owner = sql(list.owner)
  const items = listOf(list.items)
  const object = hasValues(list)
    ? sql.literal(`jsonb_build_object(${items.map(({ member }) => `'${member}', item.members`).join()})`)
    : sql`item.members`
  yield* sql`
    DELETE FROM ${table} WHERE project_id = ${projectId} AND ${owner} = ANY(${given.map(({ id }) => id)}::text[])`
  yield* sql`
    INSERT INTO ${table} (project_id, ${owner}, position, ${sql.csv(items.map(({ column }) => sql`${sql(column)}`))})
    SELECT ${projectId}, record.members ->> 'id', item.place - 1,
      ${sql.csv(items.map(({ member }) => sql`value.${sql(member)}`))}
    FROM ${elementsOf(sql, given)} AS record (members),
         jsonb_array_elements(record.members -> ${sql.literal(`'${name}'`)}) WITH ORDINALITY AS item (members, place),
         jsonb_to_record(${object}) AS value (${typed(sql, items)})`
})
