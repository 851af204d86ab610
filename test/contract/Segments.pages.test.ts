/** The pages of segments: their order, and what a cursor is bound to (contract §6, §9). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { assertFault, problemOf } from "../support/ContractAnswers.ts"
import { walkPages } from "../support/Pages.ts"
import { TestServer } from "../support/TestServer.ts"
import { open, path } from "./Campaigns.support.ts"

const segmentsPath = `${path}/audience-segments`

type Calls = Effect.Success<ReturnType<typeof open>>

const at = (index: number) => new Date(Date.UTC(2026, 0, 1) + index).toISOString()

/** `count` segments, three of each age. */
const many = (count: number) =>
  Array.from({ length: count }, (_, index) => ({
    id: `s${String((index * 31) % count).padStart(4, "0")}`,
    createdAt: at(Math.floor(index / 3))
  }))

const insert = ({ projectId, server }: Calls, segments: ReturnType<typeof many>) =>
  Effect.orDie(server.sql`
    INSERT INTO segments (project_id, id, name, contact_count, created_at, updated_at)
    SELECT ${projectId}, id, id, 0, "createdAt", "createdAt"
    FROM jsonb_to_recordset(${JSON.stringify(segments)}::jsonb) AS segment (id text, "createdAt" timestamptz)`)

/** Newest first, then by the id, the greatest first. */
const inOrder = (segments: ReturnType<typeof many>) =>
  segments
    .toSorted((left, right) => (`${left.createdAt} ${left.id}` < `${right.createdAt} ${right.id}` ? 1 : -1))
    .map(({ id }) => id)

const walk = ({ segments }: Calls, limit: number, between?: (page: number) => Effect.Effect<unknown>) =>
  walkPages(segments, `limit=${limit}`, between)

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("segments", (it) => {
  it.effect("are none at first, and then as the project file made them", () =>
    Effect.gen(function* () {
      const { apply, segments } = yield* open()
      assert.deepStrictEqual(yield* segments(), { items: [], nextCursor: null, link: undefined })
      yield* apply({
        clients: [
          { id: "ada", displayName: "Ada", status: "archived" },
          { id: "bob", displayName: "Bob", mergedIntoClientId: "ada" }
        ],
        segments: [{ id: "all", name: "All", clientIds: ["ada", "bob"] }]
      })
      const [made] = (yield* segments()).items
      assert.deepStrictEqual(made, {
        id: "all",
        name: "All",
        description: null,
        // Archived and merged ones, too.
        contactCount: 2,
        createdAt: made?.createdAt ?? "",
        updatedAt: made?.createdAt ?? ""
      })
      yield* apply({ segments: [{ id: "all", name: "Every", description: "One", clientIds: ["ada"] }] })
      const [changed] = (yield* segments()).items
      assert.deepInclude(changed, {
        name: "Every",
        description: "One",
        contactCount: 1,
        createdAt: made?.createdAt ?? ""
      })
      assert.isTrue((changed?.updatedAt ?? "") > (made?.updatedAt ?? ""))
    })
  )

  it.effect(
    "come newest first, then by id, 50 to a page unless told otherwise, and no other project's among them",
    () =>
      Effect.gen(function* () {
        const calls = yield* open()
        const mine = many(101)
        yield* insert(calls, mine)
        yield* insert(yield* open(), many(40))
        const expected = inOrder(mine)
        const first = yield* calls.segments()
        assert.deepStrictEqual(
          first.items.map(({ id }) => id),
          expected.slice(0, 50)
        )
        assert.match(String(first.link), /^<http:.*\/audience-segments\?cursor=[A-Za-z0-9_-]+>; rel="next"$/)
        for (const limit of [1, 7, 100]) {
          const pages = yield* walk(calls, limit)
          assert.deepStrictEqual(pages.flat(), expected)
          assert.strictEqual(pages.length, Math.ceil(101 / limit))
        }
      })
  )

  it.effect("repeat none and miss none while others are made and changed", () =>
    Effect.gen(function* () {
      const calls = yield* open()
      const stay = many(40)
      yield* insert(calls, stay)
      const between = Effect.fnUntraced(function* (page: number) {
        yield* insert(calls, [{ id: `inserted ${page}`, createdAt: at(page % 14) }])
        yield* calls.apply({
          segments: [
            { id: `new ${page}`, name: "N", clientIds: [] },
            { id: stay[page % 40]?.id ?? "", name: "Changed", clientIds: ["ada"] }
          ]
        })
      })
      const seen = (yield* walk(calls, 4, between)).flat()
      assert.strictEqual(new Set(seen).size, seen.length)
      const known = new Set(stay.map(({ id }) => id))
      assert.deepStrictEqual(
        seen.filter((id) => known.has(id)),
        inOrder(stay)
      )
    })
  )

  it.effect("have cursors of their own project and operation, as they were given", () =>
    Effect.gen(function* () {
      const calls = yield* open()
      const other = yield* open()
      const { server, token } = calls
      for (const { insertInto } of [{ insertInto: calls }, { insertInto: other }]) yield* insert(insertInto, many(3))
      const { nextCursor } = yield* calls.segments("limit=1")
      const ask = (query: string, by = token) => server.send({ path: `${segmentsPath}?${query}`, token: by })
      // Any limit goes on from there.
      assert.strictEqual((yield* ask(`cursor=${nextCursor}&limit=2`)).status, 200)
      problemOf(yield* ask(`cursor=${nextCursor}`, other.token), 400, "cursor_invalid")
      const clients = yield* server.send({ path: "/api/v1/developer/crm/clients?limit=1", token })
      const foreign = /"nextCursor":"([^"]+)"/.exec(clients.text)?.[1]
      assert.isString(foreign)
      for (const cursor of [foreign, `${nextCursor}A`, nextCursor?.slice(1), "A", "x".repeat(4096)]) {
        problemOf(yield* ask(`cursor=${cursor}`), 400, "cursor_invalid")
      }
      for (const cursor of ["", "x".repeat(4097)]) assertFault(yield* ask(`cursor=${cursor}`), "query/cursor")
      for (const limit of ["0", "101", "x", "1.5", ""]) assertFault(yield* ask(`limit=${limit}`), "query/limit")
    })
  )
})
