/** The pages of a deal's notes: their order, and what a cursor is bound to (contract §6). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { assertFault, notePageOf, pageOf, problemOf, receiptOf } from "../support/ContractAnswers.ts"
import { walkPages } from "../support/Pages.ts"
import { TestServer } from "../support/TestServer.ts"
import { open } from "./Notes.support.ts"

const at = (index: number) => new Date(Date.UTC(2026, 0, 1) + index).toISOString()

/** `count` notes, three of each age. */
const many = (count: number) =>
  Array.from({ length: count }, (_, index) => ({
    id: `n${String((index * 31) % count).padStart(4, "0")}`,
    createdAt: at(Math.floor(index / 3))
  }))

/** Newest first, then by the id, the greatest first. */
const inOrder = (notes: ReturnType<typeof many>) =>
  notes
    .toSorted((left, right) => (`${left.createdAt} ${left.id}` < `${right.createdAt} ${right.id}` ? 1 : -1))
    .map(({ id }) => id)

const idsOf = ({ items }: ReturnType<typeof notePageOf>) => items.map(({ id }) => id)

/** The ids of every page, from the first to the last. */
const walk = (
  { page }: Effect.Success<ReturnType<typeof open>>,
  limit: number,
  between?: (page: number) => Effect.Effect<unknown>
) => walkPages(page, `limit=${limit}`, between)

layer(TestServer.layer(), { excludeTestServices: true })("the notes of a deal", (it) => {
  it.effect("are none at first", () =>
    Effect.gen(function* () {
      const { page } = yield* open()
      assert.deepStrictEqual(yield* page(), { items: [], nextCursor: null, link: undefined })
    })
  )

  it.effect("come newest first, then by id, 50 to a page unless told otherwise, and no other deal's among them", () =>
    Effect.gen(function* () {
      const notes = yield* open("deal", "other")
      const mine = many(101)
      yield* notes.insert(mine)
      yield* notes.but({ dealId: "other" }).insert(mine.map((note) => ({ ...note, id: `other ${note.id}` })))
      const expected = inOrder(mine)
      assert.deepStrictEqual(idsOf(yield* notes.page()), expected.slice(0, 50))
      for (const limit of [1, 2, 7, 100]) {
        const pages = yield* walk(notes, limit)
        assert.deepStrictEqual(pages.flat(), expected)
        assert.strictEqual(pages.length, Math.ceil(101 / limit))
      }
      const written = yield* notes.created()
      assert.strictEqual(idsOf(yield* notes.page())[0], written)
    })
  )

  it.effect("repeat none and miss none while others are written, changed and removed", () =>
    Effect.gen(function* () {
      const notes = yield* open()
      const [stay, leave] = [many(60), many(60).map((note) => ({ ...note, id: `leaving ${note.id}` }))]
      yield* notes.insert([...stay, ...leave])
      const between = Effect.fnUntraced(function* (page: number) {
        yield* notes.created()
        yield* notes.insert([{ id: `inserted ${page}`, createdAt: at(page % 20) }])
        const [changed, removed] = [stay[page % 60]?.id ?? "", leave[page % 60]?.id ?? ""]
        receiptOf(yield* notes.patch(changed, { body: "Changed", expectedVersion: 1 }), 200)
        receiptOf(yield* notes.remove(removed, 1), 200)
      })
      const seen = (yield* walk(notes, 5, between)).flat()
      assert.strictEqual(new Set(seen).size, seen.length)
      const known = new Set(stay.map(({ id }) => id))
      assert.deepStrictEqual(
        seen.filter((id) => known.has(id)),
        inOrder(stay)
      )
    })
  )

  it.effect("go on after a note that was removed since", () =>
    Effect.gen(function* () {
      const notes = yield* open()
      const written = many(9)
      yield* notes.insert(written)
      const first = yield* notes.page("limit=4")
      receiptOf(yield* notes.remove(idsOf(first).at(-1) ?? assert.fail(), 1), 200)
      assert.deepStrictEqual(idsOf(yield* notes.page(`cursor=${first.nextCursor}`)), inOrder(written).slice(4))
    })
  )

  it.effect("are linked page by page, by an address that is good as it is, whatever the deal's id", () =>
    Effect.gen(function* () {
      const notes = yield* open("a/b ü?#&")
      const { insert, page, server, token } = notes
      const written = many(7)
      yield* insert(written)
      const seen: Array<string> = []
      let next = yield* page("limit=3")
      seen.push(...idsOf(next))
      while (next.link !== undefined) {
        const [, address] = /^<([^<>\s"]+)>; rel="next"$/.exec(String(next.link)) ?? []
        const link = new URL(address ?? assert.fail(String(next.link)), server.url + notes.path)
        assert.strictEqual(link.origin, server.url)
        assert.deepStrictEqual(Object.fromEntries(link.searchParams), { limit: "3", cursor: next.nextCursor ?? "" })
        next = notePageOf(yield* server.send({ path: link.pathname + link.search, token }))
        seen.push(...idsOf(next))
      }
      assert.deepStrictEqual(seen, inOrder(written))
    })
  )

  it.effect("take a limit from 1 to 100 and a cursor of 1 to 512 characters", () =>
    Effect.gen(function* () {
      const { list } = yield* open()
      for (const limit of ["0", "101", "-1", "1.5", "1e1", "", "five"]) {
        assertFault(yield* list(`limit=${limit}`), "query/limit")
      }
      for (const length of [0, 513]) assertFault(yield* list(`cursor=${"x".repeat(length)}`), "query/cursor")
      problemOf(yield* list(`cursor=${"x".repeat(512)}`), 400, "cursor_invalid")
    })
  )
})

layer(TestServer.layer(), { excludeTestServices: true })("a cursor of notes", (it) => {
  const filled = Effect.fnUntraced(function* (...deals: ReadonlyArray<string>) {
    const notes = yield* open("deal", ...deals)
    yield* notes.insert(many(5))
    const { nextCursor } = yield* notes.page("limit=2")
    return { notes, cursor: nextCursor ?? assert.fail() }
  })

  it.effect("is bound to its deal", () =>
    Effect.gen(function* () {
      const { cursor, notes } = yield* filled("other")
      const other = notes.but({ dealId: "other" })
      yield* other.insert(many(5).map((note) => ({ ...note, id: `other ${note.id}` })))
      problemOf(yield* other.list(`cursor=${cursor}`), 400, "cursor_invalid")
      assert.strictEqual((yield* notes.page(`cursor=${cursor}`)).items.length, 3)
    })
  )

  it.effect("is bound to its project, though another has the same deal", () =>
    Effect.gen(function* () {
      const { cursor } = yield* filled()
      const stranger = yield* filled()
      problemOf(yield* stranger.notes.list(`cursor=${cursor}`), 400, "cursor_invalid")
    })
  )

  it.effect("is bound to the list of notes", () =>
    Effect.gen(function* () {
      const { cursor, notes } = yield* filled("other")
      const { projectId, server, token } = notes
      yield* server.apply(projectId, { clients: ["a", "b"].map((id) => ({ id, displayName: "A" })) })
      for (const list of ["clients", "deals"]) {
        const path = `/api/v1/developer/crm/${list}`
        problemOf(yield* server.send({ path: `${path}?cursor=${cursor}`, token }), 400, "cursor_invalid")
      }
      const clients = pageOf(yield* server.send({ path: "/api/v1/developer/crm/clients?limit=1", token }))
      problemOf(yield* notes.list(`cursor=${clients.nextCursor}`), 400, "cursor_invalid")
    })
  )

  it.effect("is good only as it was given", () =>
    Effect.gen(function* () {
      const { cursor, notes } = yield* filled()
      for (const altered of [cursor.slice(0, -1), `${cursor}A`, cursor.slice(1), cursor.toUpperCase()]) {
        problemOf(yield* notes.list(`cursor=${altered}`), 400, "cursor_invalid")
      }
    })
  )

  it.effect("belongs to the project, not to the token", () =>
    Effect.gen(function* () {
      const { cursor, notes } = yield* filled()
      const rotated = notes.but({ token: yield* notes.server.issue(notes.projectId) })
      assert.strictEqual((yield* rotated.page(`limit=1&cursor=${cursor}`)).items.length, 1)
    })
  )
})
