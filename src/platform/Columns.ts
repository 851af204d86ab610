/**
 * Which member of a record stands in which column, as data: said once for what is read, told in events and patched, whose
 * SQL is made of it. Repositories make it when they are loaded, not for every statement.
 */
import * as Instants from "./Instants.ts"

Instants.register()

type ColumnType = "text" | "text[]" | "integer" | "bigint" | "date" | "timestamptz"

/** By the record's members: the column, and its type where that is not `text`. */
export type Columns = Readonly<Record<string, string | readonly [column: string, type: ColumnType]>>

interface Column {
  readonly member: string
  readonly column: string
  readonly type: ColumnType
}

const listed = (columns: Columns): ReadonlyArray<Column> =>
  Object.entries(columns).map(([member, column]) =>
    typeof column === "string" ? { member, column, type: "text" } : { member, column: column[0], type: column[1] }
  )

/** A column's value in JSON that PostgreSQL writes; times in UTC with milliseconds. */
const wire = (value: string, type: ColumnType): string => {
  switch (type) {
    case "timestamptz":
      return `to_char(${value} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`
    case "date":
      return `to_char(${value}, 'YYYY-MM-DD')`
    default:
      return value
  }
}

/** A column's value as the driver decodes it to what JSON writes. */
const decoded = (value: string, type: ColumnType): string => {
  switch (type) {
    // The codec of `Instants.ts` makes text of it.
    case "timestamptz":
      return `${value} AT TIME ZONE 'UTC'`
    // Exact to 2^53.
    case "bigint":
      return `${value}::float8`
    default:
      return value
  }
}

/** For a SELECT whose rows are the record; `table` qualifies the columns where a join needs it. */
export const selected = (columns: Columns, table?: string): string =>
  listed(columns)
    .map(({ column, member, type }) => {
      const value = table === undefined ? column : `${table}.${column}`
      return `${decoded(value, type)} AS "${member}"`
    })
    .join(", ")

/** The record as a JSON object, from a row called `row`. */
export const jsonObject = (columns: Columns, row: string): string =>
  `json_build_object(${listed(columns)
    .map(({ column, member, type }) => `'${member}', ${wire(`${row}.${column}`, type)}`)
    .join(", ")})`

/** For a SELECT of the next values: those that the patch `p` (jsonb) names, and the columns as they are else. */
export const patched = (columns: Columns): string =>
  listed(columns)
    .map(({ column, member, type }) => {
      const given =
        type === "text[]" ? `ARRAY(SELECT jsonb_array_elements_text(p->'${member}'))` : `(p->>'${member}')::${type}`
      return `CASE WHEN p ? '${member}' THEN ${given} ELSE ${column} END AS ${column}`
    })
    .join(", ")

/** Whether the rows `one` and `other` differ. */
export const differ = (columns: Columns, one: string, other: string): string => {
  const row = (name: string) =>
    listed(columns)
      .map(({ column }) => `${name}.${column}`)
      .join(", ")
  return `(${row(one)}) IS DISTINCT FROM (${row(other)})`
}

/** For the SET of an UPDATE from a row called `row`. */
export const assigned = (columns: Columns, row: string): string =>
  listed(columns)
    .map(({ column }) => `${column} = ${row}.${column}`)
    .join(", ")
