/** The same command twice, or fifty times at once, has one effect and one answer (contract §5). */
import { assert, layer } from "../support/Vitest.ts"
import { problemOf, receiptOf } from "../support/ContractAnswers.ts"
import type { Answer } from "../support/ContractHttp.ts"
import { startServer, TestServer } from "../support/TestServer.ts"
import { atOnce, callsOf, open, path, statusesOf } from "./Clients.support.ts"
import { newKey } from "./Requests.ts"

/** The members of an answer that a replay repeats. */
const repeated = ({ headers, status, text }: Answer) => [status, text, headers["etag"], headers["content-type"]]

/** Asserts that one of several equal commands ran, and that all have the same answer. */
const assertOneRan = (answers: ReadonlyArray<Answer>, status: 200 | 201) => {
  const receipts = answers.map((answer) => receiptOf(answer, status))
  assert.strictEqual(receipts.filter(({ replayed }) => !replayed).length, 1)
  assert.strictEqual(new Set(answers.map((answer) => JSON.stringify(repeated(answer)))).size, 1)
}

layer(TestServer.layer(), { excludeTestServices: true })("an idempotency key of clients", (it) => {
  it.effect("lets one of 50 equal creates at once run, on two replicas", function* () {
    const { create, page, projectId, server, token } = yield* open({ project: { contactCapacity: 10 } })
    const replica = callsOf(yield* startServer({ DATABASE_URL: server.databaseUrl }), { projectId, token })
    const key = newKey()
    const body = { displayName: "Once" }
    assertOneRan(yield* atOnce(50, (index) => (index % 2 === 0 ? create : replica.create)(body, key)), 201)
    assert.strictEqual((yield* page("limit=100")).items.length, 1)
    const answers = yield* atOnce(60, (index) => (index % 2 === 0 ? create : replica.create)(body))
    assert.deepStrictEqual(statusesOf(answers), { 201: 9, 409: 51 })
  })

  it.effect("belongs to one of several concurrent bodies, and is refused to the others", function* () {
    const { create, page } = yield* open()
    const key = newKey()
    const answers = yield* atOnce(30, (index) => create({ displayName: `Body ${index % 3}` }, key))
    assert.deepStrictEqual(statusesOf(answers), { 201: 10, 409: 20 })
    assertOneRan(
      answers.filter(({ status }) => status === 201),
      201
    )
    for (const answer of answers) if (answer.status === 409) problemOf(answer, 409, "idempotency_key_reused")
    assert.strictEqual((yield* page()).items.length, 1)
  })

  it.effect("replays its answer whatever happened to the client since, without effect", function* () {
    const { create, patch, read } = yield* open({ project: { contactCapacity: 1 } })
    const [first, second, third] = [newKey(), newKey(), newKey()]
    const created = yield* create({ displayName: "A" }, first)
    const { resourceId: id } = receiptOf(created, 201)
    const renamed = yield* patch(id, { displayName: "B" }, second)
    const same = yield* patch(id, { displayName: "B" }, third)
    receiptOf(yield* patch(id, { displayName: "C", tags: ["x"] }), 200)
    receiptOf(yield* patch(id, { status: "archived" }), 200)
    receiptOf(yield* create({ displayName: "Takes the only place" }), 201)
    const before = yield* read(id)
    for (const _ of [1, 2]) {
      for (const [answer, again] of [
        [created, yield* create({ displayName: "A" }, first)],
        [renamed, yield* patch(id, { displayName: "B" }, second)],
        [same, yield* patch(id, { displayName: "B" }, third)]
      ] as const) {
        assert.deepStrictEqual(repeated(again), repeated(answer))
        assert.notProperty(answer.headers, "idempotent-replayed")
        assert.strictEqual(again.headers["idempotent-replayed"], "true")
      }
    }
    assert.deepStrictEqual(yield* read(id), before)
  })

  it.effect("is distinguished by letter case and length", function* () {
    const { create, page } = yield* open()
    const key = newKey()
    for (const other of [key, key.toUpperCase(), `${key}0`, `${key}.`, key.padEnd(159, "x"), key.padEnd(160, "x")]) {
      assert.isFalse(receiptOf(yield* create({ displayName: "A" }, other), 201).replayed)
    }
    assert.strictEqual((yield* page()).items.length, 6)
  })

  it.effect("remains unused when its command fails", function* () {
    const { apply, create, patch, server, token } = yield* open({
      project: { contactCapacity: 1 },
      clients: [
        { id: "full", displayName: "A" },
        { id: "archived", displayName: "A", status: "archived" }
      ],
      organizations: [{ id: "old", name: "Old", archived: true }]
    })
    const keys = Array.from({ length: 9 }, newKey)
    const key = (index: number) => keys[index] ?? assert.fail()
    const commands = [
      [() => create({ displayName: "A" }, key(0)), 409, "contact_capacity_exhausted"],
      [() => patch("archived", { status: "active" }, key(1)), 409, "contact_capacity_exhausted"],
      [() => patch("later", { displayName: "B" }, key(2)), 404, "client_not_found"],
      [() => patch("full", { responsibleMemberId: "m" }, key(3)), 404, "member_not_found"],
      [() => patch("full", { organizationId: "o" }, key(4)), 404, "organization_not_found"],
      [() => patch("full", { organizationId: "old" }, key(5)), 409, "organization_archived"]
    ] as const
    for (const [command, status, code] of commands) {
      for (const _ of [1, 2]) problemOf(yield* command(), status, code)
    }
    problemOf(yield* patch("archived", { displayName: "B" }, key(6)), 409, "client_archived")
    problemOf(yield* create({ displayName: "" }, key(7)), 400, "validation_failed")
    const headers = { "content-type": "application/json" }
    problemOf(
      yield* server.send({ method: "POST", path, token, key: key(8), headers, body: "{" }),
      400,
      "malformed_json"
    )

    yield* apply({
      project: { contactCapacity: 100 },
      clients: [{ id: "later", displayName: "A" }],
      members: [{ id: "m", name: "M" }],
      organizations: [
        { id: "o", name: "O" },
        { id: "old", name: "Old", archived: false }
      ]
    })
    for (const [command] of commands) {
      const answer = yield* command()
      assert.deepInclude(receiptOf(answer, answer.status === 201 ? 201 : 200), { replayed: false, changed: true })
    }
    for (const answer of [
      yield* patch("archived", { displayName: "B" }, key(6)),
      yield* patch("archived", { displayName: "C" }, key(7)),
      yield* patch("archived", { displayName: "D" }, key(8))
    ]) {
      assert.deepInclude(receiptOf(answer, 200), { replayed: false, changed: true })
    }
  })
})
