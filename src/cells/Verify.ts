/** Compares both sides of a move: for each table, the number of the project's rows and the sum of their hashes. */
import { Duration, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { tablesOf } from "../project/Offboarding.ts"
import { drained } from "./Replication.ts"
import { refused, type Sides } from "./Sides.ts"

type Sql = SqlClient.SqlClient

interface Sum {
  readonly name: string
  readonly rows: number
  readonly sum: string
}

/**
 * A table, and its columns in the order of their names. The physical order can differ between databases, for example after a
 * restore.
 */
interface Columns {
  readonly name: string
  readonly columns: string
}

const columnsOf = (sql: Sql, names: ReadonlyArray<string>) => sql<Columns>`
  SELECT quote_ident(relname) AS name, string_agg(quote_ident(attname), ', ' ORDER BY attname) AS columns
  FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
  WHERE relnamespace = current_schema()::regnamespace AND quote_ident(relname) = ANY(${names}::text[])
    AND attnum > 0 AND NOT attisdropped
  GROUP BY relname ORDER BY relname`

/** Sets the formats of values as text, so that equal values have equal hashes on both sides. */
const formats = (sql: Sql) => sql`
  SELECT set_config('timezone', 'UTC', false), set_config('datestyle', 'ISO, MDY', false),
    set_config('intervalstyle', 'postgres', false), set_config('bytea_output', 'hex', false),
    set_config('extra_float_digits', '1', false)`

const sumsOf = (sql: Sql, projectId: string, tables: ReadonlyArray<Columns>) =>
  sql.unsafe<Sum>(
    tables
      .map(
        ({ columns, name }) => `
          SELECT '${name}' AS name, count(*)::int AS rows, coalesce(sum(hashtextextended(ROW(${columns})::text, 0)), 0)::text AS sum
          FROM ${name} WHERE project_id = $1`
      )
      .join(" UNION ALL "),
    [projectId]
  )

/** Maximum number of comparisons. The sides may differ for a moment when the use of an API key is recorded. */
const attempts = 5

/** Waits until the target has all changes, and fails unless both sides are equal. Returns the number of rows. */
export const verify = Effect.fnUntraced(function* (sides: Sides) {
  const { projectId, source, target } = sides
  const all = (yield* tablesOf(source)).map(({ name }) => name)
  let tables: ReadonlyArray<Columns> = yield* columnsOf(source, all)
  let rows: number | undefined
  for (let attempt = 1; attempt <= attempts; attempt++) {
    yield* drained(sides)
    yield* Effect.all([formats(source), formats(target)])
    const [here, there] = yield* Effect.all(
      [sumsOf(source, projectId, tables), sumsOf(target, projectId, tables)] as const,
      { concurrency: 2 }
    )
    rows ??= here.reduce((all, { rows }) => all + rows, 0)
    const other = new Map(there.map((sum) => [sum.name, sum]))
    const differ = here.filter(({ name, rows, sum }) => other.get(name)?.rows !== rows || other.get(name)?.sum !== sum)
    tables = tables.filter(({ name }) => differ.some((sum) => sum.name === name))
    if (tables.length === 0) return rows
    yield* Effect.sleep(Duration.millis(100))
  }
  const names = tables.map(({ name }) => name)
  return yield* refused(`The target differs from the source in ${names.join(", ")}: run with --abort, then begin again`)
})
