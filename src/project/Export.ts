/**
 * Writes a project as a project file (contract §12). Applying the file would change nothing.
 *
 * All statements read one snapshot. Their transaction takes only the locks of a SELECT, so no mutation waits for it. Cursors
 * read the records and the items of their lists in the same order. Each record is written as soon as it is read, so memory use
 * does not grow with the project.
 */
import { Effect, type PlatformError, Record } from "effect"
import { SqlClient } from "effect/sql"
import type { ProjectId } from "../api/schema/Ids.ts"
import { type Columns, listOf, selectList } from "../sql/Columns.ts"
import { ProjectUnknown } from "../operating/Refusals.ts"
import { type FileRecord, hasValues, type List, nest, type Part, parts } from "./Parts.ts"
import { readProject } from "./Projects.ts"

type Sql = SqlClient.SqlClient

/** Writes a text. The caller generates the next text only afterwards. */
type Write<E> = (text: string) => Effect.Effect<void, E>

/** Writes a project in pieces of `pieceLength` characters or more. Calls `progress` for each record. */
export const exportProject = Effect.fn("exportProject")(
  function* (projectId: ProjectId, write: Write<PlatformError.PlatformError>, progress = () => {}) {
    yield* Effect.annotateCurrentSpan("project.id", projectId)
    const sql = yield* SqlClient.SqlClient
    yield* sql`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY`
    // No limit, because the reader of the file may be slow.
    yield* sql`SELECT set_config('idle_in_transaction_session_timeout', '0', true)`
    const project = yield* readProject(sql, projectId)
    if (project === undefined) return yield* new ProjectUnknown({ projectId })
    /** The number of written records under each top-level name of the project file, such as `clients`. */
    const records: Record<string, number> = { project: 1 }
    const { flush, put } = inPieces(write)
    yield* put(`{\n  "project": ${JSON.stringify(project)}`)
    for (const name of Record.keys(parts)) {
      yield* put(`,\n  "${name}": [`)
      records[name] = yield* writePart(sql, projectId, name, put, progress)
      yield* put(records[name] === 0 ? "]" : "\n  ]")
    }
    yield* put("\n}\n")
    yield* flush
    return { projectId, records }
  },
  (written) => SqlClient.SqlClient.use((sql) => sql.withTransaction(written)),
  Effect.catchTag("SqlError", Effect.die)
)

/** Writes the records of a part, each on a line of its own, and returns their number. */
const writePart = Effect.fnUntraced(function* <E>(
  sql: Sql,
  projectId: ProjectId,
  name: keyof typeof parts,
  put: Write<E>,
  progress: () => void
) {
  const part: Part = parts[name]
  const next = yield* openRecords(sql, projectId, name, part)
  const lists = yield* Effect.forEach(Object.entries({ ...part.lists, ...part.foreignLists }), ([member, list]) =>
    Effect.map(openList(sql, projectId, `${name}_${member}`, list), (next) => ({ member, list, next }))
  )
  let count = 0
  for (let record = yield* next(); record !== undefined; record = yield* next()) {
    const { id } = record
    progress()
    yield* put(`${count++ === 0 ? "" : ","}\n    ${JSON.stringify(nest(part, record)).slice(0, -1)}`)
    for (const { list, member, next } of lists) {
      yield* put(`,"${member}":[`)
      const nextItem = next((item) => item.owner === id)
      let separator = ""
      for (let item = yield* nextItem; item !== undefined; item = yield* nextItem) {
        const { owner: _, ...members } = item
        yield* put(separator + JSON.stringify(hasValues(list) ? Object.values(members)[0] : members))
        separator = ","
      }
      yield* put("]")
    }
    yield* put("}")
  }
  return count
})

/** Minimum length of a piece, in characters. The last piece may be shorter. */
const pieceLength = 65_536

const inPieces = <E>(write: Write<E>) => {
  let piece = ""
  const flush = Effect.suspend(() => {
    const text = piece
    piece = ""
    return write(text)
  })
  return { flush, put: (text: string) => ((piece += text).length < pieceLength ? Effect.void : flush) }
}

interface Item {
  readonly owner: string
  readonly [member: string]: unknown
}

const openRecords = (sql: Sql, projectId: ProjectId, name: string, part: Part) => {
  const { columns, exported = "true", hidden = [], table } = part
  const key: Columns = { id: "id", ...part.key }
  const shown = Record.filter(columns, (_, member) => !hidden.includes(member))
  return open<FileRecord>(sql, name, {
    columns: { ...key, ...shown },
    table,
    projectId,
    condition: exported,
    order: listOf(key).map(({ column }) => column)
  })
}

const openList = (sql: Sql, projectId: ProjectId, name: string, { items, owner, table }: List) =>
  open<Item>(sql, name, { columns: { owner, ...items }, table, projectId, order: [owner, "position"] })

/** Number of rows that a cursor reads at once. */
const page = 500

interface Query {
  readonly columns: Columns
  readonly table: string
  readonly projectId: ProjectId
  readonly condition?: string
  readonly order: ReadonlyArray<string>
}

/** Opens a cursor, which lives until the transaction ends. Returns a function that takes the next row. */
const open = Effect.fnUntraced(function* <Row extends object>(
  sql: Sql,
  name: string,
  { columns, condition = "true", order, projectId, table }: Query
) {
  yield* sql`
    DECLARE ${sql(name)} NO SCROLL CURSOR FOR
    SELECT ${sql.literal(selectList(columns))} FROM ${sql(table)}
    WHERE project_id = ${projectId} AND ${sql.literal(condition)} ORDER BY ${sql.csv(order.map((column) => sql`${sql(column)}`))}`
  const fetch = sql<Row>`FETCH ${sql.literal(String(page))} FROM ${sql(name)}`
  let rows: ReadonlyArray<Row> = []
  let at = 0
  let isLast = false
  /**
   * Returns undefined if there is no next row, or if the next row does not satisfy the condition. Such a row stays for the next
   * call.
   */
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
