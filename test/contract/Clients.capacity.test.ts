/** The contact capacity is exact under concurrent commands, also through two replicas (contract §7). */
import { assert, it, layer } from "../support/Vitest.ts"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { problemOf, receiptOf } from "../support/ContractAnswers.ts"
import { makeDatabase } from "../support/TestDatabase.ts"
import { startServer, TestServer } from "../support/TestServer.ts"
import { atOnce, open } from "./Clients.support.ts"

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

  it.effect("is exact when 30 activations and 30 creates compete for 25 places", function* () {
    const { create, page, patch } = yield* open({
      project: { contactCapacity: 25 },
      clients: Array.from({ length: 30 }, (_, index) => ({
        id: `archived ${index}`,
        displayName: "A",
        status: "archived" as const
      }))
    })
    const answers = yield* atOnce(60, (index) =>
      index % 2 === 0 ? patch(`archived ${index / 2}`, { status: "active" }) : create({ displayName: "A" })
    )
    const succeeded = answers.filter(({ status }) => status < 300)
    assert.strictEqual(succeeded.length, 25)
    for (const answer of answers) {
      if (answer.status >= 300) problemOf(answer, 409, "contact_capacity_exhausted")
    }
    assert.strictEqual((yield* page("limit=100&status=active")).items.length, 25)
  })

  it.effect("is exact when the same clients are archived and activated by many at once", function* () {
    const { create, page, patch } = yield* open({
      project: { contactCapacity: 5 },
      clients: Array.from({ length: 8 }, (_, index) => ({
        id: `c${index}`,
        displayName: "A",
        status: index < 5 ? ("active" as const) : ("archived" as const)
      }))
    })
    for (let round = 0; round < 5; round++) {
      const answers = yield* atOnce(64, (index) =>
        patch(`c${index % 8}`, { status: (index + round) % 3 === 0 ? "archived" : "active" })
      )
      for (const answer of answers) assert.include([200, 409], answer.status, answer.text)
      const active = (yield* page("status=active")).items.length
      assert.isAtMost(active, 5)
      // As many creates succeed as the list leaves free.
      const creates = yield* atOnce(8, () => create({ displayName: "A" }))
      assert.strictEqual(creates.filter(({ status }) => status === 201).length, 5 - active)
      const { items } = yield* page("status=active")
      yield* atOnce(items.length, (index) => patch(items[index]?.id ?? "", { status: "archived" }))
    }
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

const clients = ["ada", "bob", "cyd", "dan"]

it.live("two replicas that patch the same clients concurrently lose no patch and never deadlock", function* () {
  const environment = { DATABASE_URL: Redacted.value(yield* makeDatabase()) }
  const one = yield* startServer(environment, "api")
  const other = yield* startServer(environment, "api")
  // With a capacity, patches that archive or reactivate lock the project's row too.
  const seeded = yield* Effect.forEach([0, 1], () =>
    one.seed({ project: { contactCapacity: 4 }, clients: clients.map((id) => ({ id, displayName: id })) })
  )
  const patches = Array.from({ length: 240 }, (_, n) => {
    const { projectId, token } = seeded[n % 2] ?? assert.fail()
    const id = clients[(n >> 1) % 4] ?? ""
    const json = n % 5 === 0 ? { status: n % 10 === 0 ? "archived" : "active" } : { firstName: `${n}` }
    const request = { method: "PATCH", path: `/api/v1/developer/crm/clients/${id}`, token, key: `replica-${n}`, json }
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
  const sql: SqlClient.SqlClient = one.sql
  for (const { projectId } of seeded) {
    const rows = yield* Effect.orDie(sql<{ readonly id: string; readonly version: number }>`
      SELECT id, version FROM clients WHERE project_id = ${projectId} ORDER BY id`)
    assert.deepStrictEqual(
      rows.map(({ id, version }) => [id, version]),
      clients.map((id) => [
        id,
        1 + answers.filter((of) => of.projectId === projectId && of.id === id && isChange(of)).length
      ])
    )
  }
  const [database] = yield* Effect.orDie(
    sql`SELECT deadlocks::int FROM pg_stat_database WHERE datname = current_database()`
  )
  assert.deepStrictEqual(database, { deadlocks: 0 })
})
