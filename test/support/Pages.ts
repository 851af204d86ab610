/** Reads all pages of a list. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"

interface Page {
  readonly items: ReadonlyArray<{ readonly id: string }>
  readonly nextCursor: string | null
}

/** Returns the ids of each page, from the first page to the last; `page` requests the page of a query. */
export const walkPages = Effect.fnUntraced(function* <E, R>(
  page: (query: string) => Effect.Effect<Page, E, R>,
  query: string,
  between: (page: number) => Effect.Effect<unknown> = () => Effect.void
) {
  const pages: Array<ReadonlyArray<string>> = []
  let cursor = ""
  while (true) {
    const { items, nextCursor } = yield* page(`${query}${cursor}`)
    pages.push(items.map(({ id }) => id))
    assert.isBelow(pages.length, 1_000, "the pages never end")
    if (nextCursor === null) return pages
    assert.match(nextCursor, /^[A-Za-z0-9._~-]{1,512}$/)
    cursor = `&cursor=${nextCursor}`
    yield* between(pages.length)
  }
})
