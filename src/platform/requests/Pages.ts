/** Keyset pages (contract §6). A page costs the same wherever it is in the list. */
import { Context, Effect, Layer, Predicate } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import type { CursorInvalid } from "../../api/Problems.ts"
import { Cursors, type List, type Position } from "./Cursors.ts"

export interface Page<Item> {
  readonly items: ReadonlyArray<Item>
  readonly nextCursor: string | null
}

export interface PageQuery {
  readonly limit: number
  readonly cursor?: string | undefined
}

/**
 * The records that are read for a page: up to `limit`, which follow the position `after` in the order of the list. The first
 * page has no `after`.
 */
export interface Window {
  readonly after: Position | undefined
  /** One of a few numbers, because PostgreSQL plans the statement separately for each number (see `pageLimit`). */
  readonly limit: number
}

const byAge = (item: { readonly id: string; readonly createdAt: string }): Position => ({
  createdAt: new Date(item.createdAt),
  id: item.id
})

/**
 * Returns the position of a record in a list that is sorted by id. The time has no meaning in such a list, but every cursor has
 * one.
 */
const byId = ({ id }: { readonly id: string }): Position => ({ createdAt: new Date(0), id })

/** The page sizes for which there are statements. A page of another size is cut from a page of the next larger size. */
const sizes = [10, 50, 100]

export class Pages extends Context.Service<
  Pages,
  {
    /**
     * Reads the page of a query. The `limit` of the window that `fetch` gets is greater than the page, so that one more record
     * shows whether there is a next page.
     */
    readonly read: <Item extends { readonly id: string; readonly createdAt: string }, E, R>(
      list: List,
      query: PageQuery,
      fetch: (window: Window) => Effect.Effect<ReadonlyArray<Item>, E, R>
    ) => Effect.Effect<Page<Item>, E | CursorInvalid, R>

    /** Like `read`, for a list that is ordered by id alone. Its `fetch` uses `pageConditionById`. */
    readonly readById: <Item extends { readonly id: string }, E, R>(
      list: List,
      query: PageQuery,
      fetch: (window: Window) => Effect.Effect<ReadonlyArray<Item>, E, R>
    ) => Effect.Effect<Page<Item>, E | CursorInvalid, R>
  }
>()("developer-api/platform/requests/Pages") {
  static readonly layer = Layer.effect(
    Pages,
    Effect.gen(function* () {
      const cursors = yield* Cursors
      const reading =
        <Base>(positionOf: (item: Base) => Position) =>
        <Item extends Base, E, R>(
          list: List,
          { cursor, limit }: PageQuery,
          fetch: (window: Window) => Effect.Effect<ReadonlyArray<Item>, E, R>
        ): Effect.Effect<Page<Item>, E | CursorInvalid, R> => {
          const pageOf = (found: ReadonlyArray<Item>): Page<Item> => {
            const items = withinBytes(found.slice(0, limit))
            const last = found.length > items.length ? items.at(-1) : undefined
            return { items, nextCursor: last === undefined ? null : cursors.encode(list, positionOf(last)) }
          }
          const size = 1 + (sizes.find((size) => size >= limit) ?? limit)
          if (cursor === undefined) return Effect.map(fetch({ after: undefined, limit: size }), pageOf)
          return Effect.flatMap(cursors.decode(list, cursor), (after) =>
            Effect.map(fetch({ after, limit: size }), pageOf)
          )
        }
      return { read: reading(byAge), readById: reading(byId) }
    })
  ).pipe(Layer.provide(Cursors.layer))
}

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
export const pageCondition = (sql: SqlClient.SqlClient, after: Position | undefined): Statement.Fragment => {
  if (after === undefined) return sql.literal(listed)
  const { createdAt } = after
  return sql`${sql.literal(listed)} AND (created_at, id) < ((SELECT ${createdAt}::timestamptz), ${idOf(sql, after)})`
}

/** Returns the condition, as `AND …`, that records follow the position in a list by ascending `id`. Empty for the first page. */
export const pageConditionById = (sql: SqlClient.SqlClient, after: Position | undefined): Statement.Fragment =>
  after === undefined ? sql.literal("") : sql`AND id > ${idOf(sql, after)}`

/** Returns the id of a position, as a query (see `pageCondition`). */
export const idOf = (sql: SqlClient.SqlClient, { id }: Position): Statement.Fragment => sql`(SELECT ${id}::text)`

const listed = "AND created_at > '-infinity'"

/**
 * Returns the LIMIT of a list. The number is in the text of the statement, so that the generic plan considers it (see
 * `pageCondition`).
 */
export const pageLimit = (sql: SqlClient.SqlClient, { limit }: Window): Statement.Fragment =>
  sql.literal(`LIMIT ${limit}`)
