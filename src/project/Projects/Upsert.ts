/** Creates or updates the records of one part of a project file, in one statement and two more for each list. */
import { Effect } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import type { ProjectId } from "../../api/Ids.ts"
import type { Column } from "../../platform/Columns.ts"
import { differs, type FileRecord, type List, replace } from "./Lists.ts"

type Sql = SqlClient.SqlClient
type Fragment = Statement.Fragment

/** A column that a member sets. An absent member keeps the stored value; a new record then gets `initial`. */
export interface Given extends Column {
  readonly initial?: Fragment
}

/** A column that the service sets: its value in a new record, and in an existing one that changes. */
export interface Derived {
  readonly column: string
  readonly created: Fragment
  readonly changed: Fragment
}

/** The table of a part. In its fragments, `file` is the record of the file and `old` the stored record. */
export interface Part {
  readonly table: string
  /** Further columns of the key, beside the id. */
  readonly key?: ReadonlyArray<Column>
  readonly given: ReadonlyArray<Given>
  readonly derived?: ReadonlyArray<Derived>
  readonly lists?: ReadonlyArray<List>
}

export interface Counts {
  readonly created: number
  readonly updated: number
  readonly unchanged: number
}

/**
 * Applies the records. The UPDATE itself reads the values to keep from `old`, and PostgreSQL reads the row again after
 * waiting for its lock: concurrent commits are kept.
 */
export const upsert = Effect.fnUntraced(function* (
  sql: Sql,
  part: Part,
  projectId: ProjectId,
  records: ReadonlyArray<FileRecord>
) {
  const { derived = [], given, key = [], lists = [] } = part
  const table = sql(part.table)
  const columns = (of: ReadonlyArray<{ readonly column: string }>, prefix = "") =>
    sql.csv(of.map(({ column }) => sql`${sql.literal(prefix)}${sql(column)}`))
  const member = (from: Given, otherwise: Fragment) =>
    sql`CASE WHEN file.members ? ${sql.literal(`'${from.member}'`)} THEN file.${sql(from.member)} ELSE ${otherwise} END`
  const same = sql.and([
    sql`old.project_id = file.project_id`,
    sql`old.id = file.id`,
    ...key.map(({ column, member }) => sql`old.${sql(column)} = file.${sql(member)}`)
  ])
  const next = given.map((from) => member(from, sql`old.${sql(from.column)}`))
  const initial = given.map((from) => member(from, from.initial ?? sql`NULL`))

  const rows = yield* sql<{ readonly created: ReadonlyArray<string>; readonly updated: ReadonlyArray<string> }>`
    WITH file AS (
      -- The project's id is a column, so that a plan without statistics does not take the project to be small, and read it.
      SELECT ${projectId}::text COLLATE "C" AS project_id, record.members, value.*
      FROM jsonb_array_elements(${JSON.stringify(records)}::jsonb) AS record (members),
           jsonb_to_record(record.members) AS value (
             id text, ${sql.csv([...key, ...given].map(({ member, type }) => sql`${sql(member)} ${sql.literal(type)}`))}
           )
    ),
    updated AS (
      UPDATE ${table} AS old
      SET ${sql.csv([
        ...given.map(({ column }, index) => sql`${sql(column)} = ${next[index] ?? sql`NULL`}`),
        ...derived.map(({ changed, column }) => sql`${sql(column)} = ${changed}`)
      ])}
      FROM file
      WHERE ${same}
        AND ${sql.or([
          sql`(${columns(given, "old.")}) IS DISTINCT FROM (${sql.csv(next)})`,
          ...lists.map((list) => differs(sql, projectId, list))
        ])}
      RETURNING old.id
    ),
    created AS (
      INSERT INTO ${table} (project_id, id, ${columns([...key, ...given, ...derived])})
      SELECT ${projectId}, file.id, ${sql.csv([
        ...key.map(({ member }) => sql`file.${sql(member)}`),
        ...initial,
        ...derived.map(({ created }) => created)
      ])}
      FROM file
      WHERE NOT EXISTS (SELECT FROM ${table} AS old WHERE ${same})
      RETURNING id
    )
    SELECT ARRAY(SELECT id FROM created) AS created, ARRAY(SELECT id FROM updated) AS updated`
  const { created = [], updated = [] } = rows[0] ?? {}
  const changed = new Set([...created, ...updated])
  const differing = records.filter(({ id }) => changed.has(id))
  for (const list of lists) yield* replace(sql, list, projectId, differing)
  return {
    created: created.length,
    updated: updated.length,
    unchanged: records.length - created.length - updated.length
  } satisfies Counts
})
