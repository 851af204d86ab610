/** Clients: their ids, their organizations, their keys, their cursors, and the contact capacity (contract §5, §6, §7). */
import { assert, it, layer } from "../support/Vitest.ts"
import { Effect, Fiber } from "effect"
import { clientOf, type ClientShape, problemOf, receiptOf } from "../support/ContractAnswers.ts"
import { deadlocks, untilBlocking } from "../support/Locks.ts"
import { secretKey, startServer, TestServer } from "../support/TestServer.ts"
import { callsOf, open, path } from "./Clients.support.ts"
import { follow, now, type Step } from "./Records.support.ts"
import { newKey } from "./Requests.ts"
import { eventsOf, subscribe } from "../support/Events.ts"
import { previousOf } from "./Deals.events.support.ts"

layer(TestServer.layer(), { excludeTestServices: true })("a client", (it) => {
  it.effect("keeps an organization that is archived later, can leave it, and cannot come back", function* () {
    const { apply, created, patch, read } = yield* open({ organizations: [{ id: "o", name: "O" }] })
    const id = yield* created()
    receiptOf(yield* patch(id, { organizationId: "o" }), 200)
    yield* apply({ organizations: [{ id: "o", name: "O", archived: true }] })
    assert.isTrue(receiptOf(yield* patch(id, { displayName: "A" }), 200).changed)
    assert.strictEqual((yield* read(id)).organizationId, "o")
    assert.isTrue(receiptOf(yield* patch(id, { organizationId: null }), 200).changed)
    const key = newKey()
    problemOf(yield* patch(id, { organizationId: "o" }, key), 409, "organization_archived")
    // The refused command has left its key free.
    yield* apply({ organizations: [{ id: "o", name: "O", archived: false }] })
    assert.isFalse(receiptOf(yield* patch(id, { organizationId: "o" }, key), 200).replayed)
  })
})

// `Grouped` tests the capacity under concurrent commands.
layer(TestServer.layer(), { excludeTestServices: true })("the contact capacity", (it) => {
  it.effect("counts active clients alone, so archiving frees a place and activation takes one", function* () {
    const { create, created, patch } = yield* open({
      project: { contactCapacity: 2 },
      clients: [{ id: "archived", displayName: "A", status: "archived" }]
    })
    const one = yield* created()
    yield* created()
    problemOf(yield* create({ displayName: "A" }), 409, "contact_capacity_exhausted")
    problemOf(yield* patch("archived", { status: "active" }), 409, "contact_capacity_exhausted")
    receiptOf(yield* patch(one, { displayName: "B" }), 200)
    receiptOf(yield* patch(one, { status: "archived" }), 200)
    receiptOf(yield* patch("archived", { status: "active" }), 200)
    problemOf(yield* patch(one, { status: "active" }), 409, "contact_capacity_exhausted")
    problemOf(yield* create({ displayName: "A" }), 409, "contact_capacity_exhausted")
  })

  it.effect("below the number of clients refuses new ones and removes none", function* () {
    const { apply, create, created, page } = yield* open({ project: { contactCapacity: 3 } })
    for (const _ of [1, 2, 3]) yield* created()
    yield* apply({ project: { contactCapacity: 1 } })
    problemOf(yield* create({ displayName: "A" }), 409, "contact_capacity_exhausted")
    assert.strictEqual((yield* page()).items.length, 3)
    yield* apply({ project: { contactCapacity: 4 } })
    receiptOf(yield* create({ displayName: "A" }), 201)
    yield* apply({ project: { contactCapacity: null } })
    receiptOf(yield* create({ displayName: "A" }), 201)
  })
})

layer(TestServer.layer(), { excludeTestServices: true })("a cursor of the list of clients", (it) => {
  const three = ["a", "b", "c"].map((id) => ({ id, displayName: id }))

  it.effect("is valid on every replica with the same secret key, after a restart too, and on no other", function* () {
    const { page, projectId, server, token } = yield* open({ clients: three })
    const { nextCursor } = yield* page("limit=2")
    const { databaseUrl } = server
    const replica = callsOf(yield* startServer({ DATABASE_URL: databaseUrl }), { projectId, token })
    assert.strictEqual((yield* replica.page(`cursor=${nextCursor}`)).items.length, 1)
    const other = Buffer.from(secretKey, "base64").fill(8).toString("base64")
    const otherKey = callsOf(yield* startServer({ DATABASE_URL: databaseUrl, SECRET_KEY: other }), {
      projectId,
      token
    })
    problemOf(yield* otherKey.list(`cursor=${nextCursor}`), 400, "cursor_invalid")
  })

  it.effect("is linked below PUBLIC_URL when that is set", function* () {
    const server = yield* startServer({ PUBLIC_URL: "https://api.example.com/edge/" })
    const seeded = yield* server.seed({ clients: three })
    const { link, nextCursor } = yield* callsOf(server, seeded).page("limit=2&status=all")
    const url = new URL(/^<([^<>]+)>; rel="next"$/.exec(String(link))?.[1] ?? assert.fail(String(link)))
    assert.strictEqual(url.origin + url.pathname, "https://api.example.com/edge/api/v1/developer/crm/clients")
    assert.deepStrictEqual(Object.fromEntries(url.searchParams), {
      limit: "2",
      status: "all",
      cursor: nextCursor ?? ""
    })
    assert.strictEqual(clientOf(yield* callsOf(server, seeded).get("a")).id, "a")
  })
})

it.live("two replicas that patch the same clients concurrently lose no patch and never deadlock", function* () {
  const one = yield* startServer({}, "api")
  const other = yield* startServer({ DATABASE_URL: one.databaseUrl }, "api")
  const clients = ["ada", "bob", "cyd", "dan"]
  // With a capacity, patches that archive or reactivate lock the project's row too.
  const seeded = yield* Effect.forEach([0, 1], () =>
    one.seed({ project: { contactCapacity: 4 }, clients: clients.map((id) => ({ id, displayName: id })) })
  )
  const patches = Array.from({ length: 240 }, (_, n) => {
    const { projectId, token } = seeded[n % 2] ?? assert.fail()
    const id = clients[(n >> 1) % 4] ?? ""
    const json = n % 5 === 0 ? { status: n % 10 === 0 ? "archived" : "active" } : { firstName: `${n}` }
    const request = { method: "PATCH", path: `${path}/${id}`, token, key: `replica-${n}`, json }
    return { id, projectId, send: (n % 3 === 0 ? one : other).send(request) }
  })
  const answers = yield* Effect.forEach(
    patches,
    ({ id, projectId, send }) => Effect.map(send, ({ status, text }) => ({ id, projectId, status, text })),
    { concurrency: 60 }
  )
  const isChange = ({ status, text }: { status: number; text: string }) =>
    status === 200 && text.includes('"changed":true')
  for (const { status, text } of answers) assert.include([200, 409], status, text)
  for (const { projectId } of seeded) {
    const rows = yield* one.sql<{ readonly id: string; readonly version: number }>`
      SELECT id, version FROM clients WHERE project_id = ${projectId} ORDER BY id`
    assert.deepStrictEqual(
      rows.map(({ id, version }) => [id, version]),
      clients.map((id) => [
        id,
        1 + answers.filter((of) => of.projectId === projectId && of.id === id && isChange(of)).length
      ])
    )
  }
  assert.strictEqual(yield* deadlocks(one.sql), 0)
})

it.live("a project whose commands all wait for one client delays no read and no later command of others", function* () {
  const { seed, send, sql } = yield* startServer()
  const clients = [{ id: "c", displayName: "C" }]
  const [busy, other] = [yield* seed({ clients }), yield* seed({ clients })]
  const patch = (token: string, n: number) =>
    send({ method: "PATCH", path: `${path}/c`, token, key: `neighbour-${n}`, json: { firstName: `${n}` } })

  let settled = 0
  const patches = yield* sql.withTransaction(
    Effect.gen(function* () {
      yield* sql`SELECT FROM clients WHERE project_id = ${busy.projectId} AND id = 'c' FOR UPDATE`
      const patches = yield* Effect.forEach(
        // Enough to occupy every connection of the mutations.
        Array.from({ length: 200 }, (_, n) => n),
        (n) => Effect.forkChild(Effect.tap(patch(busy.token, n), () => Effect.sync(() => settled++)))
      )
      // They wait in the database.
      yield* untilBlocking(sql)
      for (let n = 0; n < 10; n++) {
        assert.strictEqual((yield* send({ path: `${path}/c`, token: other.token })).status, 200)
      }
      assert.strictEqual(settled, 0)
      return patches
    })
  )
  assert.strictEqual((yield* patch(other.token, 0)).status, 200)
  for (const patch of patches) assert.include([200, 503], (yield* Fiber.join(patch)).status)
})

/** A client of which only the name was given; without what the service chooses. */
const fresh: Omit<ClientShape, "id" | "createdAt" | "updatedAt"> = {
  displayName: "A",
  firstName: null,
  lastName: null,
  email: null,
  phone: null,
  tags: [],
  externalId: null,
  marketingConsent: false,
  suppressed: false,
  organizationId: null,
  responsibleMemberId: null,
  status: "active",
  archivedAt: null,
  version: 1
}

const archived = [409, "client_archived"] as const

/** Patches of one client. */
const steps: ReadonlyArray<Step> = [
  [{ displayName: "A" }, "nothing"],
  [{ displayName: "'; -- \"\\ \u0001\n\u2028 e\u0301 é", firstName: "A", lastName: "😀".repeat(100) }],
  [{ email: "A@b.co", phone: "+123456789012345" }],
  [{ email: "a@b.co" }],
  [{ email: "a@b.co" }, "nothing"],
  [{ tags: ["b", "a"] }],
  [{ tags: ["a", "b"] }],
  [{ tags: ["a", "b"] }, "nothing"],
  [{ tags: [] }],
  [{ externalId: "x", organizationId: "o", responsibleMemberId: "m" }],
  [{ externalId: "y" }],
  [{ externalId: null, organizationId: null, responsibleMemberId: null, firstName: null, lastName: null }],
  [{ email: null, phone: null }],
  [{ marketingConsent: true, suppressed: true }],
  [{ suppressed: false }],
  [{ status: "active" }, "nothing"],
  [{ firstName: "B", status: "archived" }, { archivedAt: now }],
  [{ firstName: "C" }, archived],
  [{ firstName: "B" }, archived],
  [{ status: "archived" }, archived],
  [{ firstName: "C", status: "active" }, archived],
  [{ status: "active" }, { archivedAt: null }],
  [{ firstName: "C" }]
]

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("a client", (it) => {
  it.effect("is patched as the contract says, with an event of each change", function* () {
    const calls = yield* open({ organizations: [{ id: "o", name: "O" }], members: [{ id: "m", name: "M" }] })
    const { created, projectId, server } = calls
    yield* subscribe(server.sql, projectId, "shop", ["crm.client.created.v1", "crm.client.updated.v1"])
    const id = yield* created({ displayName: "A" })
    const records = yield* follow(calls, id, steps)
    const [first = assert.fail()] = records
    assert.deepStrictEqual(first, { ...fresh, id, createdAt: first.createdAt, updatedAt: first.createdAt })
    const events = yield* eventsOf(server.sql, projectId)
    assert.deepStrictEqual(
      events.map(({ data, type }) => ({ type, data })),
      records.map((client, index) => {
        const before = records[index - 1]
        return before === undefined
          ? { type: "crm.client.created.v1" as const, data: { client } }
          : { type: "crm.client.updated.v1" as const, data: { client, previous: previousOf(before, client) } }
      })
    )
  })
})
