/** Every list: its order, its pages, and what a cursor is bound to (contract §6). */
import { assert, type Body, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import fc from "fast-check"
import { problemOf } from "../support/ContractAnswers.ts"
import { send } from "../support/ContractHttp.ts"
import { walkPages } from "../support/Pages.ts"
import { TestServer } from "../support/TestServer.ts"
import { at, callsOf, type List, lists, many, notedDeals, openList, orderOf } from "./Lists.ts"
import { samples } from "./Samples.ts"
import { each } from "./Walk.support.ts"

const awkwardIds = "a,B,b,aa,a/,Z,_,-,0,10,9,~,!,#,%,..".split(",")

/** Ids of 160 characters, which differ in the last. */
const longIds = ["!", "0", "Z", "a", "~"].map((end) => "x".repeat(159) + end)

const instant = fc.date({
  min: new Date("0001-01-01T00:00:00Z"),
  max: new Date("9999-12-31T23:59:59.999Z"),
  noInvalidDate: true
})
const edges = [
  "0001-01-01T00:00:00.000Z",
  "2255-06-05T23:47:34.741Z",
  "5000-01-01T00:00:00.001Z",
  "9999-12-31T23:59:59.999Z"
]

const and = (filter: string, more: string) => (filter === "" ? more : `${filter}&${more}`)

const cursorOf = ({ nextCursor }: { readonly nextCursor: string | null }) => nextCursor ?? assert.fail("the last page")

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("every list", (it) => {
  it.effect("is listed in the walk's table", () =>
    Effect.sync(() =>
      assert.sameMembers(
        Object.keys(lists),
        Object.entries(samples).flatMap(([name, { query = {} }]) => ("cursor" in query ? [name] : []))
      )
    )
  )

  const walk = (what: string, test: (list: List) => Body<TestServer>, among: (list: List) => boolean = () => true) => {
    for (const [name, list] of Object.entries(lists).filter(([, list]) => among(list))) {
      it.effect(`${name} ${what}`, () => test(list))
    }
  }

  walk("is empty at first", function* (list) {
    const { page } = yield* openList(list)
    assert.deepStrictEqual(yield* page(), { items: [], nextCursor: null, link: undefined })
  })

  walk("shows its project's records in its order, by the bytes of their ids, in pages of every size", function* (list) {
    const records = [
      ...many(62),
      ...awkwardIds.flatMap((id, n) => [0, n % 4].map((k) => ({ id: id + k, createdAt: at(k) })))
    ]
    const distinct = [...new Map(records.map((record) => [record.id, record])).values()]
    const { ids, walk } = yield* openList(list, distinct)
    yield* openList(list, many(40))
    const expected = orderOf(list)(distinct)
    assert.deepStrictEqual(yield* ids(), expected.slice(0, 50))
    for (const limit of [1, 7, expected.length - 1, expected.length, 100]) {
      const pages = yield* walk(`limit=${limit}`)
      assert.deepStrictEqual(pages.flat(), expected)
      assert.strictEqual(pages.length, Math.ceil(expected.length / limit))
    }
  })

  walk("shows as many records as the limit, which may differ for each page", function* (list) {
    const { ids, page } = yield* openList(list, many(101))
    for (const limit of [1, 99, 100]) assert.lengthOf(yield* ids(`limit=${limit}`), limit)
    const seen: Array<string> = []
    let cursor: string | null = ""
    for (const limit of [1, 10, 3, 87]) {
      const next: Effect.Success<ReturnType<typeof page>> = yield* page(`limit=${limit}${cursor}`)
      seen.push(...next.items.map(({ id }) => id))
      cursor = next.nextCursor === null ? null : `&cursor=${next.nextCursor}`
    }
    assert.isNull(cursor)
    assert.deepStrictEqual(seen, orderOf(list)(many(101)))
  })

  walk(
    "repeats and misses no record while others are inserted, changed and removed around the cursor",
    function* (list) {
      const stay = many(60)
      const leaving = stay.map(({ createdAt, id }) => ({ id: `leaving ${id}`, createdAt }))
      const { change, insert, remove, walk } = yield* openList(list, [...stay, ...leaving])
      const between = Effect.fnUntraced(function* (page: number) {
        const places = [page % 20, 19, 0, 1_000 + page]
        yield* insert(places.map((millis, n) => ({ id: `new ${page} ${n}`, createdAt: at(millis) })))
        yield* change(stay[(page * 7) % 60]?.id ?? assert.fail())
        yield* remove(leaving[(page * 7) % 60]?.id ?? assert.fail())
      })
      const seen = (yield* walk("limit=7", between)).flat()
      assert.strictEqual(new Set(seen).size, seen.length)
      assert.deepStrictEqual(
        seen.filter((id) => id.startsWith("r")),
        orderOf(list)(stay)
      )
    }
  )

  walk("links to the next page with the same filter and limit", function* (list) {
    const { page, server, token } = yield* openList(list, many(9))
    for (const filter of list.filters[0] ?? []) {
      const seen: Array<string> = []
      let next = yield* page(and(filter, "limit=4"))
      while (true) {
        seen.push(...next.items.map(({ id }) => id))
        if (next.link === undefined) break
        const [, address] = /^<([^<>\s"]+)>; rel="next"$/.exec(String(next.link)) ?? []
        const link = new URL(address ?? assert.fail(String(next.link)), server.url)
        assert.strictEqual(link.origin, server.url)
        assert.deepStrictEqual(Object.fromEntries(link.searchParams), {
          ...Object.fromEntries(new URLSearchParams(filter)),
          limit: "4",
          cursor: cursorOf(next)
        })
        next = list.pageOf(yield* send(server.url, { path: link.pathname + link.search, token }))
      }
      assert.deepStrictEqual(seen, orderOf(list)(many(9)))
    }
    // A Host that could end or change the address is no part of it: the link is relative.
    for (const host of ["a/b?x=1", "a#b", "[::1", "x>;rel=prev", "user@host"]) {
      const path = `${list.path}?limit=1`
      const { link } = list.pageOf(yield* send(server.url, { path, token, headers: { host } }))
      assert.strictEqual(String(link).replace(/[\w-]+>; rel="next"$/, ""), `<${path}&cursor=`)
    }
  })

  walk("continues after every time that a record can have", function* (list) {
    const times = [...edges, ...fc.sample(instant, 30).map((time) => time.toISOString())]
    const records = times.flatMap((createdAt, n) =>
      [n, n + 3].map((place) => ({ id: `${n} ${longIds[place % longIds.length]}`.slice(-160), createdAt }))
    )
    const distinct = [...new Map(records.map((record) => [record.id, record])).values()]
    const { walk } = yield* openList(list, distinct)
    for (const limit of [1, 7]) assert.deepStrictEqual((yield* walk(`limit=${limit}`)).flat(), orderOf(list)(distinct))
  })

  walk("continues after a record with a long id that was removed, or whose time was changed", function* (list) {
    for (const change of ["remove", "move"] as const) {
      const records = longIds.map((id) => ({ id, createdAt: at(0) }))
      const expected = orderOf(list)(records)
      const { move, remove, walk } = yield* openList(list, records)
      const changes = { remove, move: (id: string) => move(id, at(1)) }
      const pages = yield* walk("limit=1", (page) => changes[change](expected[page - 1] ?? assert.fail()))
      assert.deepStrictEqual(pages.flat(), expected)
    }
  })

  walk(
    "ends a page before its items exceed 1 MiB of JSON, and goes on",
    function* (list) {
      const { lengthen, server, token } = yield* openList(list, many(30))
      // The texts are longer than the document allows, so the answers are not compared with it.
      const page = (query: string) =>
        Effect.map(send(server.url, { path: `${list.path}?${query}`, token }), ({ text }) => {
          const answer: { items: ReadonlyArray<{ id: string }>; nextCursor: string | null } = JSON.parse(text)
          return answer
        })
      yield* lengthen(100_000)
      const pages = yield* walkPages(page, "limit=100")
      assert.deepStrictEqual(pages.flat(), orderOf(list)(many(30)))
      assert.isTrue(pages.every(({ length }) => length === 1))
      yield* lengthen(10_000)
      const { items } = yield* page("limit=100")
      assert.isAtMost(Buffer.byteLength(JSON.stringify(items)), 1024 * 1024)
      assert.lengthOf(items, 17)
      yield* lengthen(1_000)
      assert.lengthOf((yield* page("limit=100")).items, 30)
    },
    ({ isShort }) => isShort !== true
  )

  walk("accepts a cursor only unaltered", function* (list) {
    const { ask, ids, page } = yield* openList(list, many(5))
    const cursor = cursorOf(yield* page("limit=2"))
    const altered = new Set(["x", "null", "0", "undefined", "e30", "x".repeat(512), cursor.toUpperCase()])
    for (const index of [0, 1, cursor.length >> 1, cursor.length - 2, cursor.length - 1]) {
      for (const other of ["", " ", "é", "A", "B", "_"]) {
        altered.add(cursor.slice(0, index) + other + cursor.slice(index + 1))
      }
      if (index > 0) altered.add(cursor.slice(0, index))
    }
    for (const other of ["A", "=", "==", " ", ".", "\n", cursor]) altered.add(cursor + other).add(other + cursor)
    altered.delete(cursor)
    yield* each(altered, (other) =>
      Effect.map(ask(`limit=2&cursor=${encodeURIComponent(other)}`), (answer) =>
        problemOf(answer, 400, "cursor_invalid")
      )
    )
    assert.lengthOf(yield* ids(`limit=2&cursor=${cursor}`), 2)
  })

  walk("accepts cursors with any token of the project, and none of another project", function* (list) {
    const { page, projectId, server } = yield* openList(list, many(5))
    const foreign = yield* openList(list, many(5))
    const cursor = cursorOf(yield* page("limit=2"))
    problemOf(yield* foreign.ask(`limit=2&cursor=${cursor}`), 400, "cursor_invalid")
    const rotated = callsOf(list, server, { projectId, token: yield* server.issue(projectId) })
    assert.lengthOf(yield* rotated.ids(`cursor=${cursor}`), 3)
  })

  walk("accepts no cursor of another list", function* (list) {
    const { ids, page, projectId, server, token } = yield* openList(list, many(3))
    const cursor = cursorOf(yield* page("limit=1"))
    yield* server.apply(projectId, notedDeals)
    const paths = Object.values(lists).map(({ path }) => path)
    const others = paths.filter((path) => path !== list.path)
    if (list.path.endsWith("/notes")) others.push("/api/v1/developer/crm/deals/other/notes")
    for (const path of others) {
      problemOf(yield* server.send({ path: `${path}?cursor=${cursor}`, token }), 400, "cursor_invalid")
    }
    const left = yield* ids(`cursor=${cursor}`)
    assert.deepStrictEqual(
      left.filter((id) => id.startsWith("r")),
      orderOf(list)(many(3)).slice(1)
    )
  })

  walk("accepts a cursor with equivalent filters only", function* (list) {
    const { ask, page } = yield* openList(list, many(5))
    for (const from of list.filters.flat()) {
      const { nextCursor } = yield* page(and(from, "limit=2"))
      if (nextCursor === null) continue
      for (const group of list.filters) {
        for (const to of group) {
          const answer = yield* ask(and(to, `limit=3&cursor=${nextCursor}`))
          if (group.includes(from)) list.pageOf(answer)
          else problemOf(answer, 400, "cursor_invalid")
        }
      }
    }
  })
})
