/** The addresses of clients (contract §7), which campaigns send to. */
import { assert, layer } from "../support/Vitest.ts"
import { Effect, Fiber } from "effect"
import { addressesOf, problemOf, receiptOf } from "../support/ContractAnswers.ts"
import { untilBlocking } from "../support/Locks.ts"
import { subscribe } from "../support/Events.ts"
import { type Parts, TestServer } from "../support/TestServer.ts"
import { callsOf as campaignsOf } from "./Campaigns.support.ts"
import { callsOf, path } from "./Clients.support.ts"
import { newKey } from "./Requests.ts"

const channels: Parts["channels"] = [
  { id: "chat", providerType: "sandbox", displayName: "Chat" },
  { id: "mail", providerType: "sandbox", displayName: "Mail" }
]

const on = (channelId: string, ...addresses: ReadonlyArray<string>) =>
  addresses.map((address) => ({ channelId, address }))

type Addresses = ReturnType<typeof on>

const open = Effect.fnUntraced(function* (parts: Parts = {}) {
  const server = yield* TestServer
  const seeded = yield* server.seed({ channels, ...parts })
  const { projectId, token } = seeded
  const at = (id: string) => `${path}/${id}/addresses`
  return {
    ...callsOf(server, seeded),
    campaigns: campaignsOf(server, seeded),
    put: (id: string, addresses: Addresses, send = server.send) =>
      send({ method: "PUT", path: at(id), token, key: newKey(), json: { addresses } }),
    addresses: (id: string) => Effect.map(server.send({ path: at(id), token }), addressesOf),
    rows: server.sql`SELECT FROM client_addresses WHERE project_id = ${projectId}`.pipe(Effect.orDie)
  }
})

layer(TestServer.layer(), { excludeTestServices: true })("the addresses of a client", (it) => {
  it.effect("are replaced whole and in their order, and raise its version without an event", function* () {
    const { addresses, created, projectId, put, read, rows, server } = yield* open()
    const id = yield* created()
    yield* subscribe(server.sql, projectId, "shop")
    const lists = [
      [...on("chat", "a", "b"), ...on("mail", "a")],
      [...on("mail", "a"), ...on("chat", "b")],
      on("chat", "c"),
      [...on("chat", "A", "c"), ...on("mail", "😀")],
      []
    ]
    assert.deepStrictEqual(yield* addresses(id), { addresses: [], version: 1 })
    assert.isFalse(receiptOf(yield* put(id, []), 200).changed)
    for (const [index, list] of lists.entries()) {
      const before = yield* read(id)
      for (const changed of [true, false]) {
        const receipt = receiptOf(yield* put(id, list), 200)
        assert.deepStrictEqual(receipt, { resourceId: id, changed, version: index + 2, replayed: false })
      }
      assert.deepStrictEqual(yield* addresses(id), { addresses: list, version: index + 2 })
      assert.lengthOf(yield* rows, list.length)
      const { updatedAt, ...after } = yield* read(id)
      assert.isAtLeast(Date.parse(updatedAt), Date.parse(before.updatedAt))
      assert.deepStrictEqual({ ...after, updatedAt: before.updatedAt }, { ...before, version: index + 2 })
    }
    assert.lengthOf(yield* server.sql`SELECT FROM events WHERE project_id = ${projectId}`, 0)
  })

  it.effect("are those of project files, which may give more of them", function* () {
    const many = on("chat", ...Array.from({ length: 30 }, (_, index) => `${index}`))
    const { addresses, apply, put } = yield* open({ clients: [{ id: "a", displayName: "A", addresses: many }] })
    assert.deepStrictEqual((yield* addresses("a")).addresses, many)
    receiptOf(yield* put("a", on("mail", "own")), 200)
    yield* apply({ clients: [{ id: "a", displayName: "B" }] })
    assert.deepStrictEqual((yield* addresses("a")).addresses, on("mail", "own"))
    yield* apply({ clients: [{ id: "a", displayName: "B", addresses: on("chat", "file") }] })
    assert.deepStrictEqual((yield* addresses("a")).addresses, on("chat", "file"))
  })

  it.effect("of an archived client are read and not replaced, those of a merged one are", function* () {
    const own = on("chat", "own")
    const { addresses, patch, put } = yield* open({
      clients: [
        { id: "a", displayName: "A", addresses: own },
        { id: "b", displayName: "B", status: "archived", addresses: own },
        { id: "c", displayName: "C", mergedIntoClientId: "a", addresses: own }
      ]
    })
    for (const list of [own, [], on("none", "a")]) problemOf(yield* put("b", list), 409, "client_archived")
    assert.deepStrictEqual((yield* addresses("b")).addresses, own)
    receiptOf(yield* patch("b", { status: "active" }), 200)
    for (const id of ["b", "c"]) assert.isTrue(receiptOf(yield* put(id, []), 200).changed)
    for (const list of [on("none", "a"), [...own, ...on("none", "a")]]) {
      problemOf(yield* put("a", list), 404, "channel_not_found")
    }
    assert.deepStrictEqual(yield* addresses("a"), { addresses: own, version: 1 })
  })

  it.effect("are compared with the newest ones, not with those of before a wait for the client", function* () {
    const { addresses, created, projectId, put, server } = yield* open()
    const { sql } = server
    const id = yield* created()
    const waiting = yield* sql.withTransaction(
      Effect.gen(function* () {
        yield* sql`UPDATE clients SET version = version + 1 WHERE project_id = ${projectId} AND id = ${id}`
        yield* sql`
          INSERT INTO client_addresses (project_id, client_id, position, channel_id, address)
          SELECT ${projectId}, ${id}, place, 'chat', place::text FROM generate_series(0, 2) AS place`
        const waiting = yield* Effect.forkChild(put(id, []))
        yield* untilBlocking(sql)
        return waiting
      })
    )
    assert.deepInclude(receiptOf(yield* Fiber.join(waiting), 200), { changed: true, version: 3 })
    assert.deepStrictEqual(yield* addresses(id), { addresses: [], version: 3 })
  })

  it.effect("bring a client that the API has made with consent into the audience of a campaign", function* () {
    const { campaigns, created, put } = yield* open({ campaigns: [{ id: "spring", name: "Spring" }] })
    const ids = {
      reached: yield* created({ marketingConsent: true }),
      again: yield* created({ marketingConsent: true }),
      silent: yield* created({ marketingConsent: true }),
      unasked: yield* created()
    }
    yield* put(ids.reached, on("chat", "ada"))
    yield* put(ids.again, [...on("mail", "bo"), ...on("chat", "bo")])
    yield* put(ids.unasked, on("chat", "cy"))
    yield* campaigns.freeze("spring")
    assert.sameMembers(yield* campaigns.recipients("spring"), [ids.reached, ids.again])
    yield* put(ids.again, [])
    yield* put(ids.silent, on("mail", "di"))
    yield* campaigns.freeze("spring")
    assert.sameMembers(yield* campaigns.recipients("spring"), [ids.reached, ids.silent])
  })
})
