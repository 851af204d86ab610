/** Clients: their ids, their organizations, their keys, their cursors, and the contact capacity (contract §5, §6, §7). */
import * as fc from "fast-check"
import { assert, it, layer } from "../support/Vitest.ts"
import { Effect, Fiber } from "effect"
import { clientOf, type ClientShape, problemOf, receiptOf } from "../support/ContractAnswers.ts"
import { deadlocks, untilBlocking } from "../support/Locks.ts"
import { secretKey, startServer, TestServer } from "../support/TestServer.ts"
import { callsOf, open, path } from "./Clients.support.ts"
import { newKey } from "./Requests.ts"
import { forAll } from "../support/Properties.ts"
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

// `Grouped.properties` tests the capacity under concurrent commands.
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

/** A client without its id and its times, which the service chooses. */
type Model = Omit<ClientShape, "id" | "createdAt" | "updatedAt" | "archivedAt">

type Patch = Partial<Omit<Model, "version">>

const initial: Model = {
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
  version: 1
}

/** Applies a patch as contract §7 defines it. */
const apply = (
  client: Model,
  patch: Patch
): { readonly client: Model; readonly changed: boolean } | "client_archived" => {
  const activation = patch.status === "active" && Object.keys(patch).length === 1
  if (client.status === "archived" && !activation) return "client_archived"
  const next = { ...client, ...patch }
  const changed = JSON.stringify(next) !== JSON.stringify(client)
  return { client: { ...next, version: client.version + (changed ? 1 : 0) }, changed }
}

const goodString = (maxLength: number) =>
  fc
    .string({ unit: "binary", minLength: 1, maxLength })
    .filter((text) => text.isWellFormed() && !text.includes("\u0000"))

/** Few values, so that patches often repeat the current value. */
const few = (maxLength: number) => fc.oneof({ weight: 3, arbitrary: fc.constantFrom("A", "B") }, goodString(maxLength))
const maybe = <A>(arbitrary: fc.Arbitrary<A>) => fc.option(arbitrary, { nil: null })

const patches = fc
  .record(
    {
      displayName: few(160),
      firstName: maybe(few(100)),
      lastName: maybe(few(100)),
      email: maybe(fc.constantFrom("a@b.co", "A@b.co", "c@d.example")),
      phone: maybe(fc.constantFrom("+4912345", "+123456789012345")),
      tags: fc.uniqueArray(few(160), { maxLength: 4 }),
      externalId: maybe(few(100)),
      marketingConsent: fc.boolean(),
      suppressed: fc.boolean(),
      organizationId: maybe(fc.constantFrom("o1", "o2")),
      responsibleMemberId: maybe(fc.constantFrom("m1", "m2")),
      status: fc.constantFrom("active" as const, "archived" as const)
    },
    { requiredKeys: [] }
  )
  .filter((patch) => Object.keys(patch).length > 0)

/** Patches of one member are as likely as larger ones, so that archived clients are often reactivated. */
const anyPatch: fc.Arbitrary<Patch> = fc.oneof(
  patches,
  fc.constantFrom<Patch>({ status: "active" }, { status: "archived" }),
  patches.map((patch) => Object.fromEntries(Object.entries(patch).slice(0, 1)))
)

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("a client that is patched", (it) => {
  it.effect("agrees with the model in record, version and changed", function* () {
    const { created, patch, projectId, read, server } = yield* open({
      project: { contactCapacity: 100_000 },
      organizations: [
        { id: "o1", name: "O" },
        { id: "o2", name: "O" }
      ],
      members: [
        { id: "m1", name: "M" },
        { id: "m2", name: "M" }
      ]
    })
    yield* subscribe(server.sql, projectId, "shop", ["crm.client.created.v1", "crm.client.updated.v1"])
    const run = (sequence: ReadonlyArray<Patch>) =>
      Effect.gen(function* () {
        const id = yield* created({ displayName: "A" })
        let model = initial
        let before = yield* read(id)
        const emitted: Array<object> = [{ type: "crm.client.created.v1", data: { client: before } }]
        for (const { externalId, ...others } of sequence) {
          // External ids are unique in the project, which all sequences share.
          const unique = typeof externalId === "string" ? `${id} ${externalId}` : externalId
          const change: Patch = unique === undefined ? others : { ...others, externalId: unique }
          const expected = apply(model, change)
          const answer = yield* patch(id, change)
          const after = yield* read(id)
          if (expected === "client_archived") {
            problemOf(answer, 409, "client_archived")
            assert.deepStrictEqual(after, before)
            continue
          }
          model = expected.client
          assert.deepStrictEqual(receiptOf(answer, 200), {
            resourceId: id,
            changed: expected.changed,
            version: model.version,
            replayed: false
          })
          if (!expected.changed) assert.deepStrictEqual(after, before)
          const { archivedAt, createdAt, id: _, updatedAt, ...record } = after
          assert.deepStrictEqual(record, { ...model, tags: [...model.tags] })
          assert.strictEqual(createdAt, before.createdAt)
          assert.isTrue(updatedAt >= before.updatedAt)
          assert.strictEqual(archivedAt !== null, model.status === "archived")
          if (expected.changed) {
            const data = { client: after, previous: previousOf(before, after) }
            emitted.push({ type: "crm.client.updated.v1", data })
          }
          before = after
        }
        const events = yield* eventsOf(server.sql, projectId)
        const own = events.filter(({ data }) => JSON.stringify(data).includes(id))
        assert.deepStrictEqual(
          own.map(({ data, type }) => ({ type, data })),
          emitted
        )
        yield* Effect.orDie(server.sql`TRUNCATE events, deliveries CASCADE`)
      })
    yield* forAll(fc.array(anyPatch, { minLength: 1, maxLength: 12 }), run, { numRuns: 40 })
  })
})
