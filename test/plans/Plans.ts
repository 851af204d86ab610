/**
 * The plans of the statements on tables in four states: never analyzed, analyzed with one row, analyzed with a million, and analyzed
 * with a million recipients of a single audience, to which others are added. A plan depends on the sizes of files and on the catalog
 * alone, so the tables get the sizes of a million rows without the rows.
 */
import { PgClient } from "@effect/sql-pg"
import { Effect, Redacted, Schema } from "effect"
import { truncateSync } from "node:fs"
import { join } from "node:path"

/** Statistics of tables, as the planner sees them. */
interface State {
  readonly name: string
  readonly isAnalyzed: boolean
  /** Pages of each table and each index; undefined: those that they have. */
  readonly pages?: number
  /** Rows of each table. */
  readonly rows?: number
  /** The columns of which all rows have the same value. */
  readonly same: ReadonlyArray<string>
}

export const states: ReadonlyArray<State> = [
  { name: "never analyzed", isAnalyzed: false, pages: 1_000, same: ["project_id"] },
  { name: "one row", isAnalyzed: true, rows: 1, same: ["project_id"] },
  { name: "a million rows", isAnalyzed: true, pages: 20_000, rows: 1_000_000, same: ["project_id"] },
  { name: "one audience", isAnalyzed: true, pages: 20_000, rows: 1_000_000, same: ["project_id", "audience_id"] }
]

/** Brings the tables of a database, which hold rows, into a state. Later statements may only be planned. */
export const prepare = Effect.fnUntraced(function* ({ isAnalyzed, pages, rows, same }: State) {
  const sql = yield* PgClient.PgClient
  const [server] = yield* sql<{ directory: string }>`SELECT current_setting('data_directory') AS directory`
  const tables = yield* sql<{ name: string; isOwned: boolean }>`
    SELECT oid::regclass::text AS name, EXISTS (
      SELECT FROM pg_attribute WHERE attrelid = pg_class.oid AND attname = 'project_id' AND NOT attisdropped
    ) AS "isOwned"
    FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'`
  // All rows are of one project.
  yield* sql`SET session_replication_role = replica`
  for (const { isOwned, name } of tables) {
    if (isOwned)
      yield* sql.unsafe(`
        DELETE FROM ${name} WHERE project_id <> (
          SELECT project_id FROM ${name} GROUP BY project_id ORDER BY count(*) DESC LIMIT 1)`)
  }
  yield* sql`VACUUM ANALYZE`
  // A few rows look as if half of them had a project or status of their own.
  yield* sql`
    UPDATE pg_statistic SET stadistinct = CASE WHEN attname = ANY(${[...same]}::text[]) THEN 1 ELSE 3 END
    FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
    WHERE starelid = attrelid AND staattnum = attnum AND relnamespace = 'public'::regnamespace
      AND (attname = ANY(${[...same]}::text[]) OR stadistinct < 0 AND attname !~ '(id|key|position|_at|name)$')`
  yield* isAnalyzed
    ? sql`
      UPDATE pg_class SET reltuples = ${rows ?? 0}, relpages = ${pages ?? 1}
      WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'i')`
    : sql`
      WITH statistics AS (
        DELETE FROM pg_statistic USING pg_class
        WHERE pg_class.oid = starelid AND relnamespace = 'public'::regnamespace
      )
      UPDATE pg_class SET reltuples = -1, relpages = 0
      WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'`
  // Indexes of few rows stay as they are; a condition that is always true is one of time.
  const files = yield* sql<{ path: string }>`
    SELECT pg_relation_filepath(pg_class.oid) AS path FROM pg_class LEFT JOIN pg_index ON indexrelid = pg_class.oid
    WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'i')
      AND (indpred IS NULL OR pg_get_expr(indpred, indrelid) LIKE '%infinity%')`
  yield* sql`CHECKPOINT`
  if (pages === undefined) return
  for (const { path } of files) truncateSync(join(server?.directory ?? "", path), pages * 8_192)
})

/** A node of a plan, of the members that `faultsOf` reads. */
interface Node {
  readonly "Node Type": string
  readonly "Parent Relationship"?: string | undefined
  readonly "Relation Name"?: string | undefined
  readonly Alias?: string | undefined
  readonly Schema?: string | undefined
  readonly "Index Name"?: string | undefined
  readonly "Index Cond"?: string | undefined
  readonly Filter?: string | undefined
  readonly Plans?: ReadonlyArray<Node> | undefined
}

const Node = Schema.Struct({
  "Node Type": Schema.String,
  "Parent Relationship": Schema.optional(Schema.String),
  "Relation Name": Schema.optional(Schema.String),
  Alias: Schema.optional(Schema.String),
  Schema: Schema.optional(Schema.String),
  "Index Name": Schema.optional(Schema.String),
  "Index Cond": Schema.optional(Schema.String),
  Filter: Schema.optional(Schema.String),
  Plans: Schema.optional(Schema.Array(Schema.suspend((): Schema.Codec<Node> => Node)))
})

const decodePlan = Schema.decodeUnknownEffect(Schema.Tuple([Schema.Struct({ Plan: Node })]))

/** An index, and whether it has only some rows, such as those of a queue. */
interface Index {
  readonly columns: ReadonlyArray<string>
  readonly isPartial: boolean
}
type Indexes = ReadonlyMap<string, Index>

/** Reads the indexes of the service's tables by name. */
export const readIndexes = Effect.gen(function* () {
  const sql = yield* PgClient.PgClient
  const rows = yield* sql<Index & { readonly name: string }>`
    SELECT indexrelid::regclass::text AS name, indpred IS NOT NULL AS "isPartial",
      array(SELECT pg_get_indexdef(indexrelid, place, false) FROM generate_series(1, indnkeyatts) place) AS columns
    FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid WHERE relnamespace = 'public'::regnamespace`
  return new Map(rows.map(({ name, ...index }) => [name, index]))
})

/** Returns the number of leading columns of an index that a scan compares with one value each. */
const equalOf = (node: Node, { columns }: Index): number => {
  const condition = node["Index Cond"] ?? ""
  const other = columns.findIndex((column) => !new RegExp(`[(."]${column}"? (?:=|IS NULL)`).test(condition))
  return other === -1 ? columns.length : other
}

/** The text of an expression, without what differs between the definition of an index and a plan. */
const bare = (expression: string) => expression.replaceAll(/::text| COLLATE "C"|[\s()"]/g, "")

/**
 * Whether a scan skips a column of its index between those that it compares. PostgreSQL then reads all entries that the columns
 * before the gap leave.
 */
const hasGap = ({ Alias: alias = "", "Index Cond": condition = "" }: Node, { columns }: Index): boolean => {
  const used = columns.map((column) =>
    /^\w+$/.test(column)
      ? new RegExp(`\\b${alias}\\."?${column}\\b`).test(condition)
      : bare(condition.replaceAll(`${alias}.`, "")).includes(bare(column))
  )
  return used.lastIndexOf(true) > used.indexOf(false) && used.includes(false)
}

/** What surrounds a node: a Limit above it whose rows it gives in their order, or after a Sort. */
type Under = "nothing" | "limit" | "sorted limit"

const below = (node: Node, under: Under): Under => {
  switch (node["Node Type"]) {
    case "Limit":
      return "limit"
    case "Sort":
    case "Incremental Sort":
    case "Aggregate":
    case "Group":
    case "WindowAgg":
      return under === "nothing" ? "nothing" : "sorted limit"
    default:
      return under
  }
}

/**
 * Returns what is wrong with a plan: what reads more rows the more a project has. In a table of one row every scan of an index
 * costs the same, so that a join may as well read all of it; that plan lasts until the table is analyzed.
 */
const faultsOf = (node: Node, indexes: Indexes, isTiny: boolean, under: Under = "nothing"): ReadonlyArray<string> => {
  const relationship = node["Parent Relationship"]
  const around = relationship === "InitPlan" || relationship === "SubPlan" ? "nothing" : under
  const inner = (node.Plans ?? []).flatMap((child) => faultsOf(child, indexes, isTiny, below(node, around)))
  const table = node.Schema === "public" ? node["Relation Name"] : undefined
  if (table === undefined) return inner
  const type = node["Node Type"]
  if (type === "Seq Scan") return [`reads all of ${table}`, ...inner]
  if (type === "Bitmap Heap Scan") return [`reads a bitmap of ${table}`, ...inner]
  const index = indexes.get(node["Index Name"] ?? "")
  if (index === undefined) return inner
  if (hasGap(node, index) && !isTiny) return [`skips a column of ${node["Index Name"]}`, ...inner]
  const equal = equalOf(node, index)
  if (equal === index.columns.length || equal > 1) return inner
  if (around === "sorted limit") return [`sorts ${table} below a limit`, ...inner]
  if (around === "limit") {
    return node.Filter === undefined || index.isPartial ? inner : [`filters ${table} below a limit`, ...inner]
  }
  return isTiny ? inner : [`reads ${table} without a limit by ${node["Index Name"]}`, ...inner]
}

/** Returns the rows of the generic plan of a statement. */
export const explain = Effect.fnUntraced(function* (text: string, options = "") {
  const sql = yield* PgClient.PgClient
  const count = Math.max(0, ...[...text.matchAll(/\$([0-9]+)/g)].map(([, number]) => Number(number)))
  const nulls = count === 0 ? "" : `(${Array.from({ length: count }, () => "NULL").join(", ")})`
  yield* sql.unsafe(`PREPARE planned AS ${text}`)
  const rows = yield* sql.unsafe<Record<string, unknown>>(`EXPLAIN ${options} EXECUTE planned${nulls}`)
  yield* sql`DEALLOCATE planned`
  return rows
})

/** Returns the faults of the generic plan of a statement, in a session with the settings of its pool. */
export const plan = Effect.fnUntraced(function* (text: string, indexes: Indexes, { rows }: State) {
  const [row] = yield* explain(text, "(FORMAT JSON, VERBOSE)")
  const [{ Plan }] = yield* decodePlan(row?.["QUERY PLAN"])
  return [...new Set(faultsOf(Plan, indexes, rows === 1))]
})

/** A session with the settings of a pool or of a page of the console, in which every plan is generic. */
export const session = (url: string, settings: Readonly<Record<string, string>>) =>
  PgClient.layer({
    url: Redacted.make(url),
    maxConnections: 1,
    startupParameters: { ...settings, plan_cache_mode: "force_generic_plan" }
  })
