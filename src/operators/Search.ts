/**
 * Lists for operators, newest first. A page starts after the last id of the previous page. A statement of a filtered list reads
 * at most `scanLimit` records, so its duration does not depend on how many records match. `complete` repeats
 * the statement until the page is full or the list ends.
 */
import { Effect } from "effect"

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
