/** The pages of the client list: their order, their cursors and their links (contract §6). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { assertFault, clientOf, pageOf, problemOf, receiptOf } from "../support/ContractAnswers.ts"
import { secretKey, startServer, TestServer } from "../support/TestServer.ts"
import { callsOf, open } from "./Clients.support.ts"

type File = NonNullable<NonNullable<Parameters<typeof open>[0]>["clients"]>

const at = (index: number) => new Date(Date.UTC(2026, 0, 1) + index).toISOString()

/** Newest first, then by the bytes of the id, the greatest first. */
const inOrder = (clients: File) =>
  clients
    .toSorted((left, right) => {
      const [a = "", b = ""] = [left.createdAt, right.createdAt]
      return a === b ? Buffer.compare(Buffer.from(right.id), Buffer.from(left.id)) : a < b ? 1 : -1
    })
    .map(({ id }) => id)

const many = (count: number, more: (index: number) => object = () => ({})): File =>
  Array.from({ length: count }, (_, index) => ({
    id: `c${String(index).padStart(4, "0")}`,
    displayName: `Client ${index}`,
    createdAt: at(index),
    ...more(index)
  }))

/** `count` strings of 160 characters out of a block of Unicode, each other, none of which deflates well. */
const longIds = (count: number, first: number, last: number) => {
  let state = 12_345
  const next = () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0
    return (state >>> 8) / 2 ** 24
  }
  return Array.from({ length: count }, () =>
    Array.from({ length: 160 }, () => {
      const codePoint = first + Math.floor(next() * (last - first + 1))
      return String.fromCodePoint(codePoint >= 0xd800 && codePoint <= 0xdfff ? codePoint - 0x1000 : codePoint)
    }).join("")
  )
}

layer(TestServer.layer(), { excludeTestServices: true })("the client list", (it) => {
  it.effect("is empty at first", () =>
    Effect.gen(function* () {
      const { page } = yield* open()
      assert.deepStrictEqual(yield* page(), { items: [], nextCursor: null, link: undefined })
    })
  )

  it.effect("holds 50 clients to a page unless told otherwise, as a get shows them, and tells the last page", () =>
    Effect.gen(function* () {
      const clients = many(100, (index) => (index % 3 === 0 ? { status: "archived" } : {}))
      const { page, read } = yield* open({ clients })
      const first = yield* page()
      assert.deepStrictEqual(
        first.items.map(({ id }) => id),
        inOrder(clients).slice(0, 50)
      )
      const second = yield* page(`cursor=${first.nextCursor}`)
      assert.strictEqual(second.items.length, 50)
      assert.isNull(second.nextCursor)
      assert.isNull((yield* page("limit=100")).nextCursor)
      for (const item of first.items.slice(0, 4)) assert.deepStrictEqual(item, yield* read(item.id))
    })
  )

  it.effect("goes on past clients of every year, from 9999 back to the year 1", () =>
    Effect.gen(function* () {
      const years = ["9999", "8922", "2026", "1970", "1969", "1066", "0001"]
      const { page } = yield* open({
        clients: years.map((year) => ({ id: year, displayName: year, createdAt: `${year}-06-01T00:00:00.000Z` }))
      })
      const seen: Array<string> = []
      for (let cursor: string | null = ""; cursor !== null;) {
        const next: { items: ReadonlyArray<{ id: string }>; nextCursor: string | null } = yield* page(
          `limit=1${cursor === "" ? "" : `&cursor=${cursor}`}`
        )
        seen.push(...next.items.map(({ id }) => id))
        cursor = next.nextCursor
      }
      assert.deepStrictEqual(seen, years)
    })
  )

  it.effect("takes a limit from 1 to 100", () =>
    Effect.gen(function* () {
      const { list, page } = yield* open({ clients: many(101) })
      for (const limit of [1, 2, 99, 100]) assert.strictEqual((yield* page(`limit=${limit}`)).items.length, limit)
      for (const limit of [
        "0",
        "101",
        "-1",
        "1.5",
        "1e1",
        "0x10",
        "",
        "%20",
        "5%20",
        "%2B5",
        "five",
        "NaN",
        "1000000000000"
      ]) {
        assertFault(yield* list(`limit=${limit}`), "query/limit")
      }
    })
  )

  it.effect("filters by status, and shows all without a filter", () =>
    Effect.gen(function* () {
      const clients = many(30, (index) => ({ status: index % 3 === 0 ? "archived" : "active" }))
      const { list, walk } = yield* open({ clients })
      const of = (status: string) => inOrder(clients.filter((client) => status === "all" || client.status === status))
      for (const status of ["active", "archived", "all"]) {
        assert.deepStrictEqual((yield* walk(`limit=4&status=${status}`)).flat(), of(status))
      }
      assert.deepStrictEqual((yield* walk("limit=4")).flat(), of("all"))
      for (const status of ["", "Active", "open", "active,archived", "ALL", "null"]) {
        assertFault(yield* list(`status=${status}`), "query/status")
      }
    })
  )

  it.effect("orders by age, then by the bytes of the id, at every size of a page", () =>
    Effect.gen(function* () {
      const ids = [
        "a",
        "B",
        "b",
        "aa",
        "a ",
        "Z",
        "_",
        "-",
        "0",
        "10",
        "9",
        "ä",
        "z",
        "ß",
        "日",
        "～",
        "😀",
        "\ufffd",
        "\u0001"
      ]
      const clients = ids.flatMap((id, index) => [
        { id, displayName: "A", createdAt: at(0) },
        { id: `later ${id}`, displayName: "A", createdAt: at(1 + (index % 3)) }
      ])
      const { walk } = yield* open({ clients })
      for (const limit of [1, 2, 3, 7, 37, 38, 39]) {
        const pages = yield* walk(`limit=${limit}`)
        assert.deepStrictEqual(pages.flat(), inOrder(clients))
        assert.strictEqual(pages.length, Math.ceil(clients.length / limit))
      }
    })
  )

  it.effect("of 230 clients repeats none and misses none while others are inserted and changed", () =>
    Effect.gen(function* () {
      const clients = many(230, (index) => ({ createdAt: at(Math.floor(index / 10) * 1_000) }))
      const { apply, create, page, patch, walk } = yield* open({ clients })
      let done = false
      const others = Effect.gen(function* () {
        for (let round = 0; !done; round++) {
          yield* create({ displayName: `Newest ${round}` })
          const id = clients[(round * 37) % 230]?.id ?? ""
          yield* patch(id, { displayName: `Changed ${round}` })
          yield* patch(id, { status: "archived" })
          yield* patch(id, { status: "active" })
        }
      })
      const between = (page: number) =>
        apply({
          clients: Array.from({ length: 5 }, (_, index) => ({
            id: `inserted ${page} ${index}`,
            displayName: "Inserted",
            createdAt: at(((page * 5 + index) % 23) * 1_000 + (index % 2))
          }))
        })
      const [pages] = yield* Effect.all(
        [
          Effect.ensuring(
            walk("limit=7", between),
            Effect.sync(() => (done = true))
          ),
          others
        ],
        { concurrency: 2 }
      )
      const seen = pages.flat()
      assert.strictEqual(new Set(seen).size, seen.length)
      const known = new Set(clients.map(({ id }) => id))
      assert.deepStrictEqual(
        seen.filter((id) => known.has(id)),
        inOrder(clients)
      )
      assert.isAbove((yield* page("limit=100")).items.length, 0)
    })
  )

  it.effect("lets the limit change between pages", () =>
    Effect.gen(function* () {
      const clients = many(40)
      const { page } = yield* open({ clients })
      const seen: Array<string> = []
      let cursor: string | null = null
      for (const limit of [1, 10, 3, 20, 100]) {
        const next: Effect.Success<ReturnType<typeof page>> = yield* page(
          `limit=${limit}${cursor === null ? "" : `&cursor=${cursor}`}`
        )
        seen.push(...next.items.map(({ id }) => id))
        cursor = next.nextCursor
      }
      assert.isNull(cursor)
      assert.deepStrictEqual(seen, inOrder(clients))
    })
  )

  it.effect("links to the next page, with the same filter and limit, by an address that is good as it is", () =>
    Effect.gen(function* () {
      const clients = many(12, (index) => ({ status: index % 2 === 0 ? "archived" : "active" }))
      const { page, server, token } = yield* open({ clients })
      const { url } = server
      const expected = inOrder(clients.filter(({ status }) => status === "archived"))
      const seen: Array<string> = []
      let next = yield* page("status=archived&limit=4")
      seen.push(...next.items.map(({ id }) => id))
      while (next.link !== undefined) {
        const match = /^<([^<>\s"]+)>; rel="next"$/.exec(String(next.link))
        const link = new URL(match?.[1] ?? assert.fail(String(next.link)), `${url}/api/v1/developer/crm/clients`)
        assert.strictEqual(link.origin, url)
        assert.strictEqual(link.searchParams.get("cursor"), next.nextCursor)
        assert.strictEqual(link.searchParams.get("limit"), "4")
        next = pageOf(yield* server.send({ path: link.pathname + link.search, token }))
        seen.push(...next.items.map(({ id }) => id))
      }
      assert.deepStrictEqual(seen, expected)
    })
  )
})

layer(TestServer.layer(), { excludeTestServices: true })("a cursor", (it) => {
  it.effect("is good only as it was given: no other character anywhere, no shorter, no longer", () =>
    Effect.gen(function* () {
      const { list, page } = yield* open({ clients: many(5) })
      const { nextCursor } = yield* page("limit=2")
      const cursor = nextCursor ?? assert.fail()
      const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
      const altered = new Set<string>()
      for (const [index, character] of [...cursor].entries()) {
        const put = (other: string) => altered.add(cursor.slice(0, index) + other + cursor.slice(index + 1))
        const place = alphabet.indexOf(character)
        for (const bit of [1, 2, 4, 8, 16, 32]) put(alphabet.charAt((place + 64) ^ bit ? place ^ bit : place))
        put(" ")
        put("")
        put("é")
        if (index > 0) altered.add(cursor.slice(0, index))
      }
      for (const end of ["A", "=", "==", " ", ".", "\n", cursor]) altered.add(cursor + end)
      for (const start of ["A", " ", "="]) altered.add(start + cursor)
      for (const other of ["x", "null", "0", "undefined", "e30", "x".repeat(512), cursor.toUpperCase()])
        altered.add(other)
      altered.delete(cursor)
      for (const other of altered) {
        problemOf(yield* list(`limit=2&cursor=${encodeURIComponent(other)}`), 400, "cursor_invalid")
      }
      assert.strictEqual((yield* page(`limit=2&cursor=${cursor}`)).items.length, 2)
    })
  )

  it.effect("has 1 to 512 characters", () =>
    Effect.gen(function* () {
      const { list } = yield* open()
      for (const cursor of ["", "x".repeat(513), "x".repeat(5_000)])
        assertFault(yield* list(`cursor=${cursor}`), "query/cursor")
    })
  )

  it.effect("is not good in another project, though that has the same clients", () =>
    Effect.gen(function* () {
      const clients = many(5)
      const one = yield* open({ clients })
      const two = yield* open({ clients })
      const { nextCursor } = yield* one.page("limit=2")
      problemOf(yield* two.list(`limit=2&cursor=${nextCursor}`), 400, "cursor_invalid")
    })
  )

  it.effect("is not good with another filter; no filter is the filter all", () =>
    Effect.gen(function* () {
      const { list, page } = yield* open({
        clients: many(9, (index) => (index % 2 === 0 ? { status: "archived" } : {}))
      })
      const filters = ["status=active", "status=archived", "status=all", ""]
      const meaning = (filter: string) => (filter === "" ? "status=all" : filter)
      for (const from of filters) {
        const { nextCursor } = yield* page(`limit=2&${from}`.replace(/&$/, ""))
        for (const to of filters) {
          const query = `limit=3&cursor=${nextCursor}&${to}`.replace(/&$/, "")
          if (meaning(from) === meaning(to)) yield* page(query)
          else problemOf(yield* list(query), 400, "cursor_invalid")
        }
      }
    })
  )

  it.effect("belongs to the project, not to the token", () =>
    Effect.gen(function* () {
      const { page, projectId, server } = yield* open({ clients: many(5) })
      const { nextCursor } = yield* page("limit=2")
      const rotated = callsOf(server, { projectId, token: yield* server.issue(projectId) })
      assert.strictEqual((yield* rotated.page(`cursor=${nextCursor}`)).items.length, 3)
    })
  )

  it.effect("stays good when its record changes", () =>
    Effect.gen(function* () {
      const clients = many(5)
      const { page, patch, read } = yield* open({ clients })
      const first = yield* page("limit=2&status=active")
      const last = first.items.at(-1)?.id ?? assert.fail()
      receiptOf(yield* patch(last, { status: "archived" }), 200)
      const rest = yield* page(`limit=5&status=active&cursor=${first.nextCursor}`)
      assert.deepStrictEqual(
        rest.items.map(({ id }) => id),
        inOrder(clients).slice(2)
      )
      assert.strictEqual((yield* read(last)).status, "archived")
    })
  )

  for (const [what, first, last] of [
    ["ASCII", 0x21, 0x7e],
    ["Cyrillic letters", 0x400, 0x4ff],
    ["Chinese characters", 0x4e00, 0x9fff],
    ["Korean syllables", 0xac00, 0xd7a3],
    ["emoji", 0x1f300, 0x1faff],
    ["rare Chinese characters", 0x20000, 0x2a6df],
    ["any characters at all", 0x80, 0x10ffff]
  ] as const) {
    it.effect(`goes on after ids of 160 characters: ${what}`, () =>
      Effect.gen(function* () {
        const clients = longIds(4, first, last).map((id) => ({ id, displayName: "A", createdAt: at(0) }))
        const { walk } = yield* open({ clients })
        assert.deepStrictEqual((yield* walk("limit=1")).flat(), inOrder(clients))
      })
    )
  }

  it.effect("is good on every replica with the same secret key, after a restart too, and on no other", () =>
    Effect.gen(function* () {
      const { page, projectId, server, token } = yield* open({ clients: many(5) })
      const { nextCursor } = yield* page("limit=2")
      const { databaseUrl } = server
      const replica = callsOf(yield* startServer({ DATABASE_URL: databaseUrl }), { projectId, token })
      assert.strictEqual((yield* replica.page(`cursor=${nextCursor}`)).items.length, 3)
      const other = Buffer.from(secretKey, "base64").fill(8).toString("base64")
      const stranger = callsOf(yield* startServer({ DATABASE_URL: databaseUrl, SECRET_KEY: other }), {
        projectId,
        token
      })
      problemOf(yield* stranger.list(`cursor=${nextCursor}`), 400, "cursor_invalid")
    })
  )

  it.effect("is linked below PUBLIC_URL where there is one", () =>
    Effect.gen(function* () {
      const server = yield* startServer({ PUBLIC_URL: "https://api.example.com/edge/" })
      const seeded = yield* server.seed({ clients: many(3) })
      const { link, nextCursor } = yield* callsOf(server, seeded).page("limit=2&status=all")
      const url = new URL(/^<([^<>]+)>; rel="next"$/.exec(String(link))?.[1] ?? assert.fail(String(link)))
      assert.strictEqual(url.origin + url.pathname, "https://api.example.com/edge/api/v1/developer/crm/clients")
      assert.deepStrictEqual(Object.fromEntries(url.searchParams), {
        limit: "2",
        status: "all",
        cursor: nextCursor ?? ""
      })
      assert.strictEqual(clientOf(yield* callsOf(server, seeded).get("c0000")).id, "c0000")
    })
  )
})
