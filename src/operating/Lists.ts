/**
 * Records for operators, and lists of them, newest first. A statement of a filtered list reads at most `scanLimit` records, however many
 * match. `complete` repeats the statement until the page is full or the list ends.
 */
import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { ProjectId } from "../api/schema/Ids.ts"
import { firstIdAt } from "../platform/Ids.ts"
import { lookupOne, type LookupStatement } from "../sql/Lookups.ts"
import { noSuchRecord, requireProject } from "./Refusals.ts"

export const scanLimit = 10_000

/** The range of a page: up to `limit` records after the record `after`; if `after` is null, from the start of the list. */
export interface Range {
  readonly after: string | null
  readonly limit: number
}

/** The range of a page of records that were created at `since` or later, and before `until`. */
export interface RangeByAge extends Range {
  readonly since?: Date | null
  readonly until?: Date | null
}

/** Returns the bounds of a range of ids that begin with the time of their creation, as those of `newId` do. */
export const idsIn = (prefix: string, { after, since, until }: RangeByAge) => {
  const [below] = [after, until ? firstIdAt(prefix, until.getTime()) : null].filter((id) => id !== null).toSorted()
  return { above: since ? firstIdAt(prefix, since.getTime()) : undefined, below }
}

/** A SQL condition: the `id` is in a range. An open end is left out, so that the generic plan is as good as one for the values. */
export const isIn = (sql: SqlClient.SqlClient, prefix: string, range: RangeByAge) => {
  const { above = "", below } = idsIn(prefix, range)
  return sql`id > ${above} ${below === undefined ? sql.literal("") : sql`AND id < ${below}`}`
}

/** A SQL condition: the time `created_at` is in the period of a range, and the record comes after the record `after` in a list by age. */
export const isCreatedIn = (
  sql: SqlClient.SqlClient,
  table: string,
  projectId: ProjectId,
  { after, since, until }: RangeByAge
) => sql`
  created_at >= ${since?.toISOString() ?? "-infinity"}::timestamptz AND created_at < ${until?.toISOString() ?? "infinity"}::timestamptz
  ${after === null ? sql.literal("") : sql`AND (created_at, id) < ((SELECT created_at FROM ${sql(table)} WHERE project_id = ${projectId} AND id = ${after}), ${after})`}`

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

/** What each row of a filtered list has: the number of records that the statement has read, and the id of the last of these. */
export interface Scanned {
  readonly last: string | null
  readonly scanned: number
}

/**
 * Makes a page of a filtered list. If `scanned` is `scanLimit`, and the found records fit on one page, the next page starts after
 * `last`. The id is null in the only row if no record was found.
 */
export const foundOf = <Item extends { readonly id: string }>(
  rows: ReadonlyArray<(Item | { readonly id: null }) & Scanned>,
  limit: number
): Found<Item> => {
  const found = rows.filter((row): row is Item & Scanned => row.id !== null)
  const page = pageOf(found, limit, ({ id }) => id)
  const [{ last, scanned } = { last: null, scanned: 0 }] = rows
  return page.next === null && scanned === scanLimit ? { ...page, next: last } : page
}

export const complete = <Item extends { readonly id: string }, E, R>(
  find: (range: RangeByAge) => Effect.Effect<Found<Item>, E, R>,
  whole: RangeByAge
): Effect.Effect<Found<Item>, E, R> => {
  const collect = (range: RangeByAge): Effect.Effect<ReadonlyArray<Item>, E, R> =>
    Effect.flatMap(find(range), ({ items, next }) => {
      const left = range.limit - items.length
      return next === null || left === 0
        ? Effect.succeed(items)
        : Effect.map(collect({ ...range, after: next, limit: left }), (rest) => [...items, ...rest])
    })
  return Effect.map(collect({ ...whole, limit: whole.limit + 1 }), (items) =>
    pageOf(items, whole.limit, ({ id }) => id)
  )
}

/** Makes a function that reads a record of a project; `kind` names it in the refusal if there is none. */
export const makeShow = <Item extends { readonly id: string }>(
  name: string,
  kind: string,
  details: (sql: SqlClient.SqlClient) => LookupStatement<Item>
) =>
  Effect.fn(name)(function* (projectId: ProjectId, id: string) {
    const sql = yield* SqlClient.SqlClient
    yield* requireProject(sql, projectId)
    return (yield* lookupOne(sql, details(sql), { projectId, id })) ?? (yield* noSuchRecord(projectId, kind, id))
  })

/** Makes a function that reads a page of a project's records. `list` reads up to `limit + 1` records; a range may have a filter. */
export const makeList = <Item, Filtered extends Range>(
  name: string,
  list: (
    sql: SqlClient.SqlClient,
    projectId: ProjectId,
    range: Filtered
  ) => Effect.Effect<ReadonlyArray<Item>, SqlError.SqlError>,
  idOf: (item: Item) => string
) =>
  Effect.fn(name)(function* (projectId: ProjectId, range: Filtered) {
    const sql = yield* SqlClient.SqlClient
    yield* requireProject(sql, projectId)
    return pageOf(yield* list(sql, projectId, range), range.limit, idOf)
  })
