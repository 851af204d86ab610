/** Pages of the client list; the walk over pages tests the rules of every list (contract §6). */
import { assert, layer } from "../support/Vitest.ts"
import { assertFault, clientOf, problemOf } from "../support/ContractAnswers.ts"
import { secretKey, startServer, TestServer } from "../support/TestServer.ts"
import { callsOf, open } from "./Clients.support.ts"
import { at, inOrder } from "./Lists.ts"

type File = NonNullable<NonNullable<Parameters<typeof open>[0]>["clients"]>

const many = (count: number, more: (index: number) => object = () => ({})): File =>
  Array.from({ length: count }, (_, index) => ({
    id: `c${String(index).padStart(4, "0")}`,
    displayName: `Client ${index}`,
    createdAt: at(index),
    ...more(index)
  }))

layer(TestServer.layer(), { excludeTestServices: true })("the list of clients", (it) => {
  it.effect("filters by status, and shows every status without a filter", function* () {
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
})

layer(TestServer.layer(), { excludeTestServices: true })("a cursor of the list of clients", (it) => {
  it.effect("is valid on every replica with the same secret key, after a restart too, and on no other", function* () {
    const { page, projectId, server, token } = yield* open({ clients: many(5) })
    const { nextCursor } = yield* page("limit=2")
    const { databaseUrl } = server
    const replica = callsOf(yield* startServer({ DATABASE_URL: databaseUrl }), { projectId, token })
    assert.strictEqual((yield* replica.page(`cursor=${nextCursor}`)).items.length, 3)
    const other = Buffer.from(secretKey, "base64").fill(8).toString("base64")
    const otherKey = callsOf(yield* startServer({ DATABASE_URL: databaseUrl, SECRET_KEY: other }), {
      projectId,
      token
    })
    problemOf(yield* otherKey.list(`cursor=${nextCursor}`), 400, "cursor_invalid")
  })

  it.effect("is linked below PUBLIC_URL when that is set", function* () {
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
})
