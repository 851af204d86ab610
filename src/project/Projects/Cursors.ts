/** Reads the stored records of a part, and the items of lists, one by one in the order of the records' keys. */
import { Effect, Record } from "effect"
import type { SqlClient } from "effect/sql"
import type { ProjectId } from "../../api/schema/Ids.ts"
import { type Columns, listOf, selectList } from "../../platform/database/Columns.ts"
import type { FileRecord, List, Part } from "./Part.ts"

type Sql = SqlClient.SqlClient

/** An item of a list, with the id of its record. */
export interface Item {
  readonly owner: string
  readonly [member: string]: unknown
}

export const openRecords = (sql: Sql, projectId: ProjectId, name: string, part: Part) => {
  const { columns, hidden = [], table } = part
  const key: Columns = { id: "id", ...part.key }
  const shown = Record.filter(columns, (_, member) => !hidden.includes(member))
  return open<FileRecord>(sql, name, {
    columns: { ...key, ...shown },
    table,
    projectId,
    order: listOf(key).map(({ column }) => column)
  })
}

export const openList = (sql: Sql, projectId: ProjectId, name: string, { items, owner, table }: List) =>
  open<Item>(sql, name, { columns: { owner, ...items }, table, projectId, order: [owner, "position"] })

const page = 500

interface Query {
  readonly columns: Columns
  readonly table: string
  readonly projectId: ProjectId
  readonly order: ReadonlyArray<string>
}

/** Opens a cursor, which lives until the transaction ends. Returns a function that takes the next row. */
const open = Effect.fnUntraced(function* <Row extends object>(
  sql: Sql,
  name: string,
  { columns, order, projectId, table }: Query
) {
  yield* sql`
    DECLARE ${sql(name)} NO SCROLL CURSOR FOR
    SELECT ${sql.literal(selectList(columns))} FROM ${sql(table)}
    WHERE project_id = ${projectId} ORDER BY ${sql.csv(order.map((column) => sql`${sql(column)}`))}`
  const fetch = sql<Row>`FETCH ${sql.literal(String(page))} FROM ${sql(name)}`
  let rows: ReadonlyArray<Row> = []
  let at = 0
  let isLast = false
  /** Takes the next row if it satisfies the condition. Returns undefined if it does not, or if there is no row. */
  return Effect.fnUntraced(function* (condition: (row: Row) => boolean = () => true) {
    if (at === rows.length && !isLast) {
      rows = yield* fetch
      isLast = rows.length < page
      at = 0
    }
    const row = rows[at]
    if (row === undefined || !condition(row)) return undefined
    at++
    return row
  })
})
