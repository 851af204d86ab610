/** Keyset pages (contract §6). A page costs the same wherever it is in the list. */
import { Context, DateTime, Effect, Layer, Predicate } from "effect"
import { SqlClient, type SqlError, type Statement } from "effect/sql"
import type { CursorInvalid } from "../../api/Problems.ts"
import type { ProjectId } from "../../api/schema/Ids.ts"
import { statement } from "../../sql/Database.ts"
import { type List, makeCursors, type Position } from "./Cursors.ts"

export interface Page<Item> {
  readonly items: ReadonlyArray<Item>
  readonly nextCursor: string | null
}

export interface PageQuery {
  readonly limit: number
  readonly cursor?: string | undefined
}

/** The records that are read for a page: up to `limit`, which follow the position `after`, if any, in the order of the list. */
export interface Window {
  readonly after: Position | undefined
  /** One of a few numbers, because PostgreSQL plans the statement separately for each number (see `pageLimit`). */
  readonly limit: number
}

interface Aged {
  readonly id: string
  readonly createdAt: string
}

interface Changing {
  readonly id: string
  readonly updatedAt: string
}

interface Identified {
  readonly id: string
  readonly version?: number
}

/** The page sizes for which there are statements. A page of another size is cut from a page of the next larger size. */
const sizes = [10, 50, 100]

type Read<Base> = <Item extends Base, E, R>(
  list: List,
  query: PageQuery,
  fetch: (window: Window) => Effect.Effect<ReadonlyArray<Item>, E, R>
) => Effect.Effect<Page<Item>, E | CursorInvalid, R>

export class Pages extends Context.Service<
  Pages,
  {
    /** Reads the page of a query. `fetch` reads one more record, which shows whether there is a next page. */
    readonly read: Read<Aged>

    /** Like `read`, for a list by id, or by id and version: by `pageConditionById` or `pageConditionByVersion`. */
    readonly readById: Read<Identified>

    /**
     * Like `read`, for a list in the order of changes: by `updatedAt`, then `id`, ascending. It ends at a time that its first page sets.
     * Without an end, pages that follow new changes could pass the time of a change that is committed later, and would never show it.
     */
    readonly readByChange: Read<Changing>
  }
>()("developer-api-service/http/pages/Pages") {
  static readonly layer = Layer.effect(
    Pages,
    Effect.gen(function* () {
      const cursors = yield* makeCursors
      const reading =
        <Base>(
          positionOf: (item: Base) => Position,
          end: Effect.Effect<Date | undefined> = Effect.undefined
        ): Read<Base> =>
        <Item extends Base, E, R>(
          list: List,
          { cursor, limit }: PageQuery,
          fetch: (window: Window) => Effect.Effect<ReadonlyArray<Item>, E, R>
        ) => {
          const pageOf = (found: ReadonlyArray<Item>, until: Date | undefined): Page<Item> => {
            const items = withinBytes(found.slice(0, limit))
            const last = found.length > items.length ? items.at(-1) : undefined
            return {
              items,
              nextCursor: last === undefined ? null : cursors.encode(list, { ...positionOf(last), until })
            }
          }
          const size = 1 + (sizes.find((size) => size >= limit) ?? limit)
          if (cursor === undefined) {
            return Effect.flatMap(end, (until) =>
              Effect.map(fetch({ after: undefined, limit: size }), (found) => pageOf(found, until))
            )
          }
          return Effect.flatMap(cursors.decode(list, cursor), (after) =>
            Effect.map(fetch({ after, limit: size }), (found) => pageOf(found, after.until))
          )
        }
      return {
        read: reading(({ createdAt, id }: Aged) => ({ at: new Date(createdAt), id })),
        // The version takes the place of the time, which has no meaning in such a list.
        readById: reading(({ id, version = 0 }: Identified) => ({ at: new Date(version), id })),
        readByChange: reading(({ id, updatedAt }: Changing) => ({ at: new Date(updatedAt), id }), endOfChanges)
      }
    })
  )
}

/** Makes a list by id without filters. `list` is the statement of a page. */
export const makeListById = <Item extends Identified>(
  operation: string,
  list: (
    sql: SqlClient.SqlClient,
    projectId: ProjectId,
    window: Window
  ) => Effect.Effect<ReadonlyArray<Item>, SqlError.SqlError>
) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const pages = yield* Pages
    return (projectId: ProjectId, query: PageQuery) =>
      pages.readById({ projectId, operation, filters: {} }, query, (window) => statement(list(sql, projectId, window)))
  })

/**
 * The end of a list in the order of changes that begins now. It is later than now, for hosts whose clocks are ahead. A change is
 * committed at most 8 s after its time (contract §7), so the next list, which begins 60 s before the last record of this one,
 * has it although the clocks differ by 30 s.
 */
const endOfChanges = Effect.map(DateTime.now, (now) => DateTime.toDate(DateTime.add(now, { seconds: 20 })))

/** Maximum size of the items of a page, in bytes of JSON (contract §6). An item that is larger has a page of its own. */
const maxBytes = 1024 * 1024

/** Returns the first items, as many as fit on a page. Their JSON is made only if they may not fit, which is rare. */
const withinBytes = <Item>(items: ReadonlyArray<Item>): ReadonlyArray<Item> => {
  let bound = 0
  for (const item of items) bound += boundOf(item)
  if (bound <= maxBytes) return items
  let bytes = 0
  const end = items.findIndex((item, index) => {
    bytes += Buffer.byteLength(JSON.stringify(item)) + 1
    return bytes > maxBytes && index > 0
  })
  return end === -1 ? items : items.slice(0, end)
}

/**
 * Returns an upper bound of the size of a value in bytes of JSON. A character takes at most six: `\u0001`. For a page of 50 this
 * takes a tenth of the time of its JSON, with `for … in`; with `Object.entries` two thirds.
 */
const boundOf = (value: unknown): number => {
  if (typeof value === "string") return 6 * value.length + 3
  let bound = 32
  if (Array.isArray(value)) for (const item of value) bound += boundOf(item)
  else if (Predicate.isObject(value)) for (const name in value) bound += 6 * name.length + 4 + boundOf(value[name])
  return bound
}

/**
 * Returns the conditions of a list, as `AND …`. The first is the condition of the list's partial index
 * (`migrations/0002_crm.ts`). The second is that the records follow the position. The first page has no position and no second
 * condition.
 *
 * The generic plan must look as cheap as a plan for the values of a call. Otherwise PostgreSQL plans the statement again for
 * each page, which takes a third of the time of a page of 50. So the position is in subqueries, whose values are unknown in both
 * plans. But the planner has to know the limit and each filter that has its own index. So these are in the text of the
 * statement.
 */
export const pageCondition = (sql: SqlClient.SqlClient, after: Position | undefined): Statement.Fragment =>
  sql`${sql.literal(listed.created_at)} ${olderThan(sql, after)}`

/** Returns the condition, as `AND …`, that records follow the position in a list by age. Empty for the first page. */
const olderThan = (sql: SqlClient.SqlClient, after: Position | undefined): Statement.Fragment =>
  after === undefined ? sql.literal("") : sql`AND (created_at, id) < ${positionOf(sql, after)}`

/** Returns the condition, as `AND …`, that records follow the position in a list by ascending `id`. Empty for the first page. */
export const pageConditionById = (sql: SqlClient.SqlClient, after: Position | undefined): Statement.Fragment =>
  after === undefined ? sql.literal("") : sql`AND id > ${idOf(sql, after)}`

/** Like `pageConditionById`, for a list by ascending `id`, then by descending `version`. */
export const pageConditionByVersion = (sql: SqlClient.SqlClient, after: Position | undefined): Statement.Fragment =>
  after === undefined
    ? sql.literal("")
    : sql`AND (id, -version) > (${idOf(sql, after)}, (SELECT ${-after.at.getTime()}::bigint))`

/** Returns the id of a position, as a query (see `pageCondition`). */
export const idOf = (sql: SqlClient.SqlClient, { id }: Position): Statement.Fragment => sql`(SELECT ${id}::text)`

const positionOf = (sql: SqlClient.SqlClient, after: Position): Statement.Fragment =>
  sql`((SELECT ${after.at}::timestamptz), ${idOf(sql, after)})`

/** The condition of the partial indexes of lists, which only lists state, by the time that orders the list. */
const listed = {
  created_at: "AND created_at > '-infinity'",
  updated_at: "AND updated_at > '-infinity'"
}

interface Order {
  readonly columns: string
  /** The condition of the list's partial index, as `AND …`. */
  readonly listed: string
  /** The condition, as `AND …`, that records are on the page or after it. */
  readonly following: Statement.Fragment
}

/** Returns the order of a list: by age, or in the order of changes if only the changes `since` a time are listed. */
export const orderOf = (sql: SqlClient.SqlClient, since: string | undefined, { after }: Window): Order =>
  since === undefined
    ? { columns: "created_at DESC, id DESC", listed: listed.created_at, following: olderThan(sql, after) }
    : {
        columns: "updated_at, id",
        listed: listed.updated_at,
        following:
          after === undefined
            ? sql`AND updated_at >= (SELECT ${since}::timestamptz)`
            : sql`AND (updated_at, id) > ${positionOf(sql, after)} AND updated_at <= (SELECT ${after.until}::timestamptz)`
      }

/**
 * Returns the page of a list whose records are in several ranges of an index, each in the order of the list. PostgreSQL merges
 * the ranges, and so reads hardly more rows than the page has. `ranges` are the conditions of the ranges.
 */
export const pageOfRanges = <Item extends object>(
  sql: SqlClient.SqlClient,
  { record, table }: { readonly table: string; readonly record: string },
  { columns, following }: Order,
  window: Window,
  ranges: ReadonlyArray<Statement.Fragment>
): Statement.Statement<Item> => {
  const page = sql`ORDER BY ${sql.literal(columns)} ${pageLimit(sql, window)}`
  const rows = ranges.map((range) => sql`(SELECT * FROM ${sql(table)} WHERE ${range} ${following} ${page})`)
  return sql<Item>`SELECT ${sql.literal(record)} FROM (${sql.join(" UNION ALL ", false)(rows)}) AS listed ${page}`
}

/** Returns the LIMIT of a list, as text of the statement, so that the generic plan considers it (see `pageCondition`). */
export const pageLimit = (sql: SqlClient.SqlClient, { limit }: Window): Statement.Fragment =>
  sql.literal(`LIMIT ${limit}`)
