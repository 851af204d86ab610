/**
 * Records for operators, and lists of them, newest first. A page starts after the last id of the previous page. A statement of a filtered list reads
 * at most `scanLimit` records, so its duration does not depend on how many records match. `complete` repeats
 * the statement until the page is full or the list ends.
 */
import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { ProjectId } from "../api/schema/Ids.ts"
import { lookupOne, type LookupStatement } from "../sql/Lookups.ts"
import { lacks, requireProject } from "./Refusals.ts"

export const scanLimit = 10_000

export const plural = (count: number, one: string, many: string): string => `${count} ${count === 1 ? one : many}`

/** The range of a page: up to `limit` records after the record `after`; if `after` is null, from the start of the list. */
export interface Range {
  readonly after: string | null
  readonly limit: number
}

/** Up to `limit` records that match. The list continues after the id `next`; null at its end. */
export interface Found<Item> {
  readonly items: ReadonlyArray<Item>
  readonly next: string | null
}

/** Makes a page from up to `limit + 1` records: the additional one shows that the list goes on. */
export const pageOf = <Item>(rows: ReadonlyArray<Item>, limit: number, idOf: (item: Item) => string): Found<Item> => {
  const items = rows.slice(0, limit)
  const last = items.at(-1)
  return { items, next: rows.length > limit && last !== undefined ? idOf(last) : null }
}

/**
 * Makes a page of a filtered list. The statement has read `scanned` records; the id of the last of these is `last`. If `scanned`
 * is `scanLimit`, and the found records fit on one page, the next page starts after `last`.
 */
export const foundOf = <Item>(
  rows: ReadonlyArray<Item>,
  limit: number,
  idOf: (item: Item) => string,
  { last, scanned }: { readonly last: string | null; readonly scanned: number }
): Found<Item> => {
  const page = pageOf(rows, limit, idOf)
  return page.next === null && scanned === scanLimit ? { ...page, next: last } : page
}

export const complete = <Item, E, R>(
  find: (range: Range) => Effect.Effect<Found<Item>, E, R>,
  { after, limit }: Range,
  idOf: (item: Item) => string
): Effect.Effect<Found<Item>, E, R> => {
  const collect = (range: Range): Effect.Effect<ReadonlyArray<Item>, E, R> =>
    Effect.flatMap(find(range), ({ items, next }) => {
      const left = range.limit - items.length
      return next === null || left === 0
        ? Effect.succeed(items)
        : Effect.map(collect({ after: next, limit: left }), (rest) => [...items, ...rest])
    })
  return Effect.map(collect({ after, limit: limit + 1 }), (items) => pageOf(items, limit, idOf))
}

/** Makes a function that reads a record of a project; `kind` names it in the refusal if there is none. */
export const showing = <Item extends { readonly id: string }>(
  name: string,
  kind: string,
  details: (sql: SqlClient.SqlClient) => LookupStatement<Item>
) =>
  Effect.fn(name)(function* (projectId: ProjectId, id: string) {
    const sql = yield* SqlClient.SqlClient
    yield* requireProject(sql, projectId)
    return (yield* lookupOne(sql, details(sql), { projectId, id })) ?? (yield* lacks(projectId, kind, id))
  })

/** Makes a function that reads a page of a project's records. `list` reads up to `limit + 1` records. */
export const listing = <Item>(
  name: string,
  list: (
    sql: SqlClient.SqlClient,
    projectId: ProjectId,
    range: Range
  ) => Effect.Effect<ReadonlyArray<Item>, SqlError.SqlError>,
  idOf: (item: Item) => string
) =>
  Effect.fn(name)(function* (projectId: ProjectId, range: Range) {
    const sql = yield* SqlClient.SqlClient
    yield* requireProject(sql, projectId)
    return pageOf(yield* list(sql, projectId, range), range.limit, idOf)
  })
