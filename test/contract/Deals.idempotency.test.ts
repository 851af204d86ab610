/** A command on deals has one effect and one answer, however often it is sent (contract §5). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { problemOf, receiptOf } from "../support/ContractAnswers.ts"
import type { Answer } from "../support/ContractHttp.ts"
import { TestServer } from "../support/TestServer.ts"
import { atOnce, statusesOf } from "./Clients.support.ts"
import { open } from "./Deals.support.ts"
import { newKey } from "./Requests.ts"

/** What a replay repeats of an answer. */
const repeated = ({ headers, status, text }: Answer) => [status, text, headers["etag"], headers["content-type"]]

layer(TestServer.layer(), { excludeTestServices: true })("an idempotency key of deals", (it) => {
  it.effect("replays its answer whatever happened to the deal since, without effect", () =>
    Effect.gen(function* () {
      const { create, page, patch, patched, read } = yield* open()
      const keys = { create: newKey(), close: newKey(), same: newKey() }
      const made = yield* create({ title: "A" }, keys.create)
      const { resourceId: id } = receiptOf(made, 201)
      const closed = yield* patch(id, { status: "lost", lostReason: "x" }, keys.close)
      const same = yield* patch(id, { status: "lost" }, keys.same)
      yield* patched(id, { status: "open", pipelineId: "service" })
      // What they said would be refused by now.
      yield* patched(id, { status: "won" })
      const before = yield* read(id)
      for (const _ of [1, 2]) {
        for (const [answer, again] of [
          [made, yield* create({ title: "A" }, keys.create)],
          [closed, yield* patch(id, { status: "lost", lostReason: "x" }, keys.close)],
          [same, yield* patch(id, { status: "lost" }, keys.same)]
        ] as const) {
          assert.deepStrictEqual(repeated(again), repeated(answer))
          assert.notProperty(answer.headers, "idempotent-replayed")
          assert.strictEqual(again.headers["idempotent-replayed"], "true")
        }
      }
      assert.deepStrictEqual((yield* page()).items, [before])
    })
  )

  it.effect("belongs to one of several concurrent deals, and is refused to the others", () =>
    Effect.gen(function* () {
      const { created, page, patch } = yield* open()
      const deals = yield* atOnce(4, () => created())
      const key = newKey()
      const answers = yield* atOnce(40, (index) => patch(deals[index % 4]?.id ?? assert.fail(), { title: "B" }, key))
      assert.deepStrictEqual(statusesOf(answers), { 200: 10, 409: 30 })
      const ids = answers.flatMap((answer) => (answer.status === 200 ? [receiptOf(answer, 200).resourceId] : []))
      const changed = (yield* page()).items.filter(({ version }) => version > 1)
      assert.deepStrictEqual(
        changed.map(({ id, title, version }) => [id, title, version]),
        [[ids[0], "B", 2]]
      )
    })
  )

  it.effect("remains unused when its command fails, and serves it once it succeeds", () =>
    Effect.gen(function* () {
      const { apply, create, created, patch, patched } = yield* open({ project: { defaultPipelineId: null } })
      const { id } = yield* created({ pipelineId: "sales" })
      yield* patched(id, { status: "won" })
      const stuck: ReadonlyArray<readonly [(key: string) => Effect.Effect<Answer>, 400 | 404, string]> = [
        [(key) => create({ title: "A" }, key), 404, "deal_reference_not_found"],
        [(key) => create({ title: "A", pipelineId: "sales", clientId: "later" }, key), 404, "deal_reference_not_found"],
        [(key) => patch("later", { title: "B" }, key), 404, "deal_not_found"],
        [(key) => patch(id, { responsibleMemberId: "later" }, key), 404, "deal_reference_not_found"],
        [(key) => patch(id, { pipelineId: "later" }, key), 404, "deal_reference_not_found"],
        [(key) => patch(id, { status: "lost" }, key), 400, "deal_status_invalid"],
        [(key) => patch(id, { amountMinor: 5 }, key), 400, "validation_failed"]
      ]
      const commands = stuck.map(([run, ...problem]) => {
        const key = newKey()
        return { run: run(key), key, problem }
      })
      for (const { problem, run } of commands) for (const _ of [1, 2]) problemOf(yield* run, ...problem)

      yield* patched(id, { status: "open", amountMinor: 1, currency: "EUR" })
      yield* apply({
        project: { defaultPipelineId: "sales" },
        clients: [{ id: "later", displayName: "L" }],
        members: [{ id: "later", name: "L" }],
        pipelines: [{ id: "later", name: "L", stages: [{ id: "later", name: "L" }] }],
        deals: [{ id: "later", title: "L" }]
      })
      for (const { key, run } of commands) {
        const answer = yield* run
        assert.deepInclude(receiptOf(answer, answer.status === 201 ? 201 : 200), { replayed: false, changed: true })
        problemOf(yield* patch(id, { title: "Another" }, key), 409, "idempotency_key_reused")
      }
    })
  )

  it.effect("remains unused when its request is invalid", () =>
    Effect.gen(function* () {
      const { create, page, server, token } = yield* open()
      const key = newKey()
      const request = { method: "POST", path: "/api/v1/developer/crm/deals", token, key }
      problemOf(yield* create({ title: "" }, key), 400, "validation_failed")
      problemOf(
        yield* server.send({ ...request, headers: { "content-type": "application/json" }, body: "{" }),
        400,
        "malformed_json"
      )
      problemOf(yield* server.send({ ...request, body: "{}" }), 415, "unsupported_media_type")
      assert.isFalse(receiptOf(yield* create({ title: "A" }, key), 201).replayed)
      assert.strictEqual((yield* page()).items.length, 1)
    })
  )
})
