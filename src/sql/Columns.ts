/**
 * Makes SQL from the columns of a kind of record, which are declared once, as data. The SQL of reads, events, inserts, patches
 * and project files is made when a module is loaded, not for each statement.
 */
import { Record } from "effect"
import { registerTimestamps } from "./Times.ts"

registerTimestamps()

type ColumnType =
  | "text"
  | "text[]"
  | "boolean"
  | "integer"
  | "smallint"
  | "bigint"
  | "bytea"
  | "date"
  | "json"
  | "jsonb"
  | "timestamptz"

/** The column of each member of a record. A string is the name of a column of type `text`. */
export type Columns<Member extends string = string> = Readonly<
  Record<Member, string | readonly [column: string, type: ColumnType]>
>

type Fields = Readonly<Record<string, { readonly Type: unknown }>>

/** The types of columns by member. A member needs an entry if its values are not strings. */
type Types<F extends Fields> = { readonly [M in keyof F]?: ColumnType } & {
  readonly [M in keyof F as F[M]["Type"] extends string | null ? never : M]: ColumnType
}

/** Returns the name of the column of a member: `created_at` for `createdAt`. */
export const columnName = (member: string): string => member.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/**
 * Returns the columns of a schema's fields. A column that `types` lacks is `timestamptz` if the member ends in `At`, otherwise
 * `text`.
 */
export const columnsOf = <F extends Fields>(fields: F, types: Types<F>): Columns<keyof F & string> => {
  const members: Readonly<Record<keyof F & string, unknown>> = fields
  return Record.map(members, (_, member) => [
    columnName(member),
    types[member] ?? (member.endsWith("At") ? "timestamptz" : "text")
  ])
}

export interface Column {
  readonly member: string
  readonly column: string
  readonly type: ColumnType
}

const columnOf = (member: string, column: Columns[string]): Column =>
  typeof column === "string" ? { member, column, type: "text" } : { member, column: column[0], type: column[1] }

export const listOf = (columns: Columns): ReadonlyArray<Column> =>
  Object.entries(columns).map(([member, column]) => columnOf(member, column))

const join = (columns: Columns, piece: (column: Column) => string): string => listOf(columns).map(piece).join(", ")

/** Returns the column type of each member, for a mutation that takes the members as arguments. */
export const argumentsOf = <Member extends string>(columns: Columns<Member>): Readonly<Record<Member, ColumnType>> =>
  Record.map(columns, (column, member) => columnOf(member, column).type)

/** Returns an SQL expression for a column's value in JSON that PostgreSQL builds. Times are in UTC with milliseconds. */
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

/** Returns an SQL expression for a column's value, which the driver decodes to the value in the record's JSON. */
const decodedColumn = (value: string, type: ColumnType): string => {
  switch (type) {
    // The result is a `timestamp`, which the codec of `Times.ts` decodes to text.
    case "timestamptz":
      return `${value} AT TIME ZONE 'UTC'`
    // The driver decodes a bigint to a JavaScript bigint, but a float8 to a number. A float8 is exact up to 2^53.
    case "bigint":
      return `${value}::float8`
    default:
      return value
  }
}

export const selectList = (columns: Columns, table?: string): string =>
  join(columns, ({ column, member, type }) => {
    const value = table === undefined ? column : `${table}.${column}`
    return `${decodedColumn(value, type)} AS "${member}"`
  })

export const jsonObject = (columns: Columns, row: string): string =>
  `json_build_object(${join(columns, ({ column, member, type }) => `'${member}', ${wire(`${row}.${column}`, type)}`)})`

/** Returns an SQL expression: a JSON object of the members that differ between two rows, with the values of `before`. */
export const alteredObject = (columns: Columns, before: string, after: string): string => {
  const members = join(
    columns,
    ({ column, member, type }) =>
      `('${member}', to_json(${wire(`${before}.${column}`, type)}), ${before}.${column} IS DISTINCT FROM ${after}.${column})`
  )
  return `(
    SELECT coalesce(json_object_agg(member, earlier), '{}')
    FROM (VALUES ${members}) AS members (member, earlier, altered) WHERE altered
  )`
}

export const insertList = (columns: Columns): string => join(columns, ({ column }) => column)

/** The values of columns that are never null, for members that a row lacks. */
const absent: { readonly [T in ColumnType]?: string } = { "text[]": "'{}'", boolean: "false" }

/**
 * Returns the values of an INSERT from a row whose columns are named like the members. A null array becomes empty, a null boolean
 * false.
 */
export const insertedValues = (columns: Columns): string =>
  join(columns, ({ member, type }) =>
    absent[type] === undefined ? `"${member}"` : `coalesce("${member}", ${absent[type]})`
  )

/**
 * Returns the select list of a patch. Each column has the value in `p` (jsonb), or its current value if the member is missing in
 * `p`.
 */
export const patchList = (columns: Columns): string =>
  join(columns, ({ column, member, type }) => {
    const given =
      type === "text[]" ? `ARRAY(SELECT jsonb_array_elements_text(p->'${member}'))` : `(p->>'${member}')::${type}`
    return `CASE WHEN p ? '${member}' THEN ${given} ELSE ${column} END AS ${column}`
  })

export const qualifiedList = (columns: Columns, row: string): string =>
  join(columns, ({ column }) => `${row}.${column}`)

export const differ = (columns: Columns, one: string, other: string): string =>
  `(${qualifiedList(columns, one)}) IS DISTINCT FROM (${qualifiedList(columns, other)})`

export const assignmentList = (columns: Columns, row: string): string =>
  join(columns, ({ column }) => `${column} = ${row}.${column}`)
