/** Lists inside the records of a project file, whose items are rows of a table of their own. */
import { Effect } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import type { ProjectId } from "../../api/Ids.ts"
import type { Column } from "../../platform/Columns.ts"

type Sql = SqlClient.SqlClient
type Fragment = Statement.Fragment

/** A record of a project file. */
export interface FileRecord {
  readonly id: string
  readonly [member: string]: unknown
}

/** A member that is a list. A given list replaces the stored one; an absent list keeps it. */
export interface List {
  readonly member: string
  readonly table: string
  /** The columns of the record's id and of the item's position, from 0. */
  readonly owner: string
  readonly position: string
  /** The columns of an item, all required. */
  readonly items: ReadonlyArray<Column>
}

const name = (sql: Sql, { member }: { readonly member: string }) => sql.literal(`'${member}'`)

/** Whether the list of `file`, a record of the project file, differs from that of `old`, the stored record. */
export const differs = (sql: Sql, projectId: ProjectId, list: List): Fragment => sql`
  (file.members ? ${name(sql, list)} AND (file.members -> ${name(sql, list)}) IS DISTINCT FROM (
    SELECT coalesce(jsonb_agg(
      jsonb_build_object(${sql.csv(list.items.flatMap((item) => [name(sql, item), sql`item.${sql(item.column)}`]))})
      ORDER BY item.${sql(list.position)}
    ), '[]')
    FROM ${sql(list.table)} AS item WHERE item.project_id = ${projectId} AND item.${sql(list.owner)} = old.id
  ))`

/**
 * Replaces the lists of stored records. An item may move from one list to another, so all old items are deleted first;
 * constraints on items must be deferred to the end of the transaction.
 */
export const replace = Effect.fnUntraced(function* (
  sql: Sql,
  list: List,
  projectId: ProjectId,
  records: ReadonlyArray<FileRecord>
) {
  const given = records.filter((record) => record[list.member] !== undefined)
  if (given.length === 0) return
  const table = sql(list.table)
  const owner = sql(list.owner)
  yield* sql`
    DELETE FROM ${table} WHERE project_id = ${projectId} AND ${owner} = ANY(${given.map(({ id }) => id)}::text[])`
  yield* sql`
    INSERT INTO ${table} (
      project_id, ${owner}, ${sql(list.position)}, ${sql.csv(list.items.map(({ column }) => sql`${sql(column)}`))}
    )
    SELECT ${projectId}, record.members ->> 'id', item.place - 1,
      ${sql.csv(list.items.map(({ member }) => sql`value.${sql(member)}`))}
    FROM jsonb_array_elements(${JSON.stringify(given)}::jsonb) AS record (members),
         jsonb_array_elements(record.members -> ${name(sql, list)}) WITH ORDINALITY AS item (members, place),
         jsonb_to_record(item.members) AS value (
           ${sql.csv(list.items.map(({ member, type }) => sql`${sql(member)} ${sql.literal(type)}`))}
         )`
})
