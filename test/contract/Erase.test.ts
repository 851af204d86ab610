/** The erase of a client (contract §7): what goes, what stays, and what happens at the same time. */
import { assert, layer } from "../support/Vitest.ts"
import { Effect, Fiber } from "effect"
import { segmentPageOf } from "../support/CampaignAnswers.ts"
import { problemOf, receiptOf } from "../support/ContractAnswers.ts"
import { untilBlocking } from "../support/Locks.ts"
import { eventsOf, subscribe } from "../support/Events.ts"
import { type Parts, TestServer } from "../support/TestServer.ts"
import * as Clients from "./Clients.support.ts"
import * as Deals from "./Deals.support.ts"
import { messagesPath } from "./Messages.support.ts"
import { newKey } from "./Requests.ts"

const conversation = "0193f0cb-d4e5-4f70-8192-0000000000e1"
const others = "0193f0cb-d4e5-4f70-8192-0000000000e2"

/** Records of the client `a`, and the same of the client `b`. */
const both: Parts = {
  project: { defaultPipelineId: "sales", contactCapacity: 3 },
  pipelines: Deals.pipelines,
  loyaltyLevels: [{ id: "gold", name: "Gold" }],
  channels: [{ id: "chat", providerType: "sandbox", displayName: "Chat" }],
  clients: ["a", "b"].map((id) => ({
    id,
    displayName: `Name of ${id}`,
    externalId: `shop-${id}`,
    loyalty: { cardNumber: `card ${id}`, levelId: "gold", balance: 5 },
    addresses: [{ channelId: "chat", address: `at ${id}` }]
  })),
  deals: ["a", "b"].flatMap((clientId) => [
    { id: `open_${clientId}`, title: "Open", clientId },
    { id: `archived_${clientId}`, title: "Archived", clientId, lifecycle: "archived" as const }
  ]),
  tickets: ["a", "b"].map((clientId) => ({
    id: `ticket_${clientId}`,
    subject: "Broken",
    status: "resolved" as const,
    clientId
  })),
  segments: [
    { id: "all", name: "All", clientIds: ["a", "b"] },
    { id: "one", name: "One", clientIds: ["a"] },
    { id: "rest", name: "Rest", clientIds: ["b"] }
  ],
  conversations: [
    { id: conversation, channelId: "chat", clientId: "a", address: "at a" },
    { id: others, channelId: "chat", clientId: "b", address: "at b" }
  ]
}

const open = Effect.fnUntraced(function* (parts: Parts = both) {
  const server = yield* TestServer
  const seeded = yield* server.seed(parts)
  const { projectId, token } = seeded
  const get = (path: string) =>
    Effect.map(server.send({ path: `/api/v1/developer/${path}`, token }), ({ json }) => json)
  return {
    ...seeded,
    server,
    clients: Clients.callsOf(server, seeded),
    deals: Deals.callsOf(server, seeded),
    get,
    send: (conversationId: string) =>
      server.send({
        method: "POST",
        path: messagesPath(conversationId),
        token,
        key: newKey(),
        json: { text: "Hello" }
      }),
    erase: (id: string, key = newKey(), send = server.send) =>
      send({ method: "DELETE", path: `${Clients.path}/${id}`, token, key }),
    count: (table: string, clientId: string) =>
      Effect.map(
        Effect.orDie(
          server.sql`SELECT FROM ${server.sql(table)} WHERE project_id = ${projectId} AND client_id = ${clientId}`
        ),
        ({ length }) => length
      )
  }
})

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("the erase of a client", (it) => {
  it.effect("removes it, and leaves its records without it and those of others as they are", function* () {
    const { clients, count, deals, erase, get, projectId, send, server, token } = yield* open()
    yield* server.sql`
      INSERT INTO tasks (project_id, id, title, client_id, version, created_at)
      SELECT ${projectId}, 'task_' || client, 'Call', client, 1, now() FROM unnest(ARRAY['a', 'b']) AS client`
    const before = yield* clients.read("b")
    assert.deepStrictEqual(receiptOf(yield* erase("a"), 200), {
      resourceId: "a",
      changed: true,
      version: 1,
      replayed: false
    })
    problemOf(yield* clients.get("a"), 404, "client_not_found")
    problemOf(yield* server.send({ path: `${Clients.path}/a/addresses`, token }), 404, "client_not_found")
    assert.deepStrictEqual(yield* clients.read("b"), before)
    for (const [clientId, kept, version] of [
      ["a", null, 2],
      ["b", "b", 1]
    ] as const) {
      for (const id of [`open_${clientId}`, `archived_${clientId}`]) {
        assert.deepInclude(yield* deals.read(id), { clientId: kept, version })
      }
      const rows = yield* server.sql`
        SELECT client_id AS "clientId", version FROM tickets WHERE project_id = ${projectId} AND id = ${`ticket_${clientId}`}
        UNION ALL
        SELECT client_id, version FROM tasks WHERE project_id = ${projectId} AND id = ${`task_${clientId}`}`
      assert.deepStrictEqual(rows, [
        { clientId: kept, version },
        { clientId: kept, version }
      ])
      assert.strictEqual(yield* count("client_addresses", clientId), kept === null ? 0 : 1)
    }
    const segments = segmentPageOf(
      yield* server.send({ path: "/api/v1/developer/campaigns/audience-segments", token })
    ).items
    assert.sameMembers(
      segments.map(({ contactCount, id }) => `${id} ${contactCount}`),
      ["all 1", "one 0", "rest 1"]
    )
    const conversations = JSON.stringify(yield* get("messaging/conversations"))
    assert.include(conversations, `"id":"${conversation}","clientId":null`)
    assert.include(conversations, `"id":"${others}","clientId":"b"`)
    problemOf(yield* send(conversation), 404, "conversation_not_found")
    assert.strictEqual((yield* send(others)).status, 200)
    // Its external id, and its place in the capacity, are free again.
    receiptOf(yield* clients.create({ displayName: "C", externalId: "shop-a" }), 201)
    receiptOf(yield* clients.create({ displayName: "D" }), 201)
    problemOf(yield* clients.create({ displayName: "E" }), 409, "contact_capacity_exhausted")
  })

  it.effect("of an archived client frees no place in the capacity, as it had none", function* () {
    const { clients, erase } = yield* open()
    yield* clients.patch("a", { status: "archived" })
    receiptOf(yield* erase("a"), 200)
    receiptOf(yield* clients.create({ displayName: "C" }), 201)
    receiptOf(yield* clients.create({ displayName: "D" }), 201)
    problemOf(yield* clients.create({ displayName: "E" }), 409, "contact_capacity_exhausted")
  })

  it.effect("emits its event and those of its deals, and leaves the ids alone in earlier events", function* () {
    const { clients, deals, erase, projectId, server } = yield* open({
      ...both,
      project: { defaultPipelineId: "sales" },
      clients: [...(both.clients ?? []), { id: "twin", displayName: "Twin", mergedIntoClientId: "a" }]
    })
    yield* subscribe(server.sql, projectId, "shop")
    yield* clients.patch("a", { email: "a@example.com", externalId: "shop-a2" })
    yield* clients.patch("b", { email: "b@example.com" })
    receiptOf(yield* erase("a"), 200)
    const erased = yield* server.sql<{ readonly type: string; readonly data: object }>`
      SELECT type, data FROM events WHERE project_id = ${projectId} AND data -> 'client' ->> 'id' = 'a' ORDER BY id`
    const ids = { client: { id: "a", externalId: "shop-a2" } }
    assert.deepStrictEqual(erased, [
      { type: "crm.client.updated.v1", data: ids },
      { type: "crm.client.erased.v1", data: ids }
    ])
    yield* server.sql`DELETE FROM deliveries WHERE project_id = ${projectId}`
    yield* server.sql`DELETE FROM events WHERE project_id = ${projectId} AND type = 'crm.client.updated.v1' AND data -> 'client' ->> 'id' = 'a'`
    const rest: ReadonlyArray<{ readonly type: string; readonly data: unknown }> = (yield* eventsOf(
      server.sql,
      projectId
    )).filter(({ type }) => type !== "crm.client.erased.v1")
    assert.sameDeepMembers(
      rest.map(({ data, type }) => ({ type, data })),
      [
        {
          type: "crm.client.updated.v1",
          data: { client: yield* clients.read("b"), previous: { email: null } }
        },
        {
          type: "crm.client.updated.v1",
          data: { client: yield* clients.read("twin"), previous: { suppressed: false } }
        },
        ...[yield* deals.read("open_a"), yield* deals.read("archived_a")].map((deal) => ({
          type: "crm.deal.updated.v1",
          data: { deal, previous: { clientId: "a" } }
        }))
      ]
    )
    assert.isTrue((yield* clients.read("twin")).suppressed)
  })

  it.effect("waits for what adds a record or an event of the client, and then takes it away, too", function* () {
    const { clients, erase, projectId, server } = yield* open()
    yield* subscribe(server.sql, projectId, "shop")
    const { sql } = server
    const late = [
      sql`
        INSERT INTO tickets (project_id, id, subject, status, client_id, version)
        VALUES (${projectId}, 'late', 'Late', 'open', 'a', 1)`,
      sql`
        WITH changed AS (
          UPDATE clients SET version = version + 1, email = 'late@example.com' WHERE project_id = ${projectId} AND id = 'b'
        )
        INSERT INTO events (project_id, id, type, data, occurred_at, traceparent)
        VALUES (${projectId}, 'late', 'crm.client.updated.v1',
          '{"client":{"id":"b","externalId":null,"email":"late@example.com"},"previous":{"email":null}}', now(), '')`
    ] as const
    for (const [index, id] of ["a", "b"].entries()) {
      const erasing = yield* sql.withTransaction(
        Effect.gen(function* () {
          yield* late[index] ?? assert.fail()
          const erasing = yield* Effect.forkChild(erase(id))
          yield* untilBlocking(sql)
          return erasing
        })
      )
      receiptOf(yield* Fiber.join(erasing), 200)
      problemOf(yield* clients.get(id), 404, "client_not_found")
    }
    assert.deepStrictEqual(
      yield* sql`SELECT client_id AS "clientId", version FROM tickets WHERE project_id = ${projectId} AND id = 'late'`,
      [{ clientId: null, version: 2 }]
    )
    assert.deepStrictEqual(yield* sql`SELECT data FROM events WHERE project_id = ${projectId} AND id = 'late'`, [
      { data: { client: { id: "b", externalId: null } } }
    ])
  })
})
