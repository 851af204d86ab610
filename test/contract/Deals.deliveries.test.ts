/** The installations and the trace of the events of deals; each event is delivered once (contract §5, §10). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { problemOf, receiptOf } from "../support/ContractAnswers.ts"
import { enable, eventsOf, subscribe } from "../support/Events.ts"
import { startServer } from "../support/TestServer.ts"
import { atOnce } from "./Clients.support.ts"
import { api, created, eventsOfChanges, openSubscribed, stageChanged, updated } from "./Deals.events.support.ts"
import { callsOf, dealPath, path, pipelines } from "./Deals.support.ts"
import { newKey } from "./Requests.ts"

const numbers = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => from + index)

layer(api, { excludeTestServices: true })("deliveries of deal events", (it) => {
  it.effect("are not made for events before a webhook's subscription or while it is disabled", function* () {
    const { created: made, patched, projectId, sql } = yield* openSubscribed()
    const { id } = yield* made()
    yield* subscribe(sql, projectId, "later")
    yield* patched(id, { title: "B" })
    yield* enable(sql, projectId, "shop", false)
    yield* patched(id, { title: "C" })
    yield* enable(sql, projectId, "later", false)
    yield* patched(id, { title: "D" })
    yield* enable(sql, projectId, "shop", true)
    yield* patched(id, { title: "E" })
    const deliveries = (yield* eventsOf(sql, projectId)).flatMap(({ data, installations }) => {
      const [, version] = /"version":(\d+)/.exec(JSON.stringify(data)) ?? []
      return installations.map((installation) => `${installation} ${version}`)
    })
    assert.deepStrictEqual(deliveries, ["shop 1", "later 2", "shop 2", "later 3", "shop 5"])
  })

  it.effect("carry the trace of the request, or a new one", function* () {
    const { projectId, server, sql, token } = yield* openSubscribed()
    const traceId = "4bf92f3577b34da6a3ce929d0e0e4736"
    const tracesOf = Effect.fnUntraced(function* (...traceparents: ReadonlyArray<string>) {
      const before = new Set((yield* eventsOf(sql, projectId)).map(({ id }) => id))
      const headers = Object.fromEntries(traceparents.map((traceparent) => ["traceparent", traceparent]))
      const made = yield* server.send({ method: "POST", path, token, key: newKey(), headers, json: { title: "A" } })
      const { resourceId } = receiptOf(made, 201)
      const json = { stageId: "agreed" }
      const request = { method: "PATCH", path: dealPath(resourceId), token, key: newKey(), headers, json }
      receiptOf(yield* server.send(request), 200)
      return (yield* eventsOf(sql, projectId)).flatMap(({ id, traceparent }) => {
        if (before.has(id)) return []
        assert.match(traceparent, /^00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]$/)
        assert.notMatch(traceparent, /^00-0{32}|-0{16}-/)
        return [traceparent.slice(3, 35)]
      })
    })
    for (const flags of ["01", "00"]) {
      assert.deepStrictEqual(yield* tracesOf(`00-${traceId}-00f067aa0ba902b7-${flags}`), [traceId, traceId, traceId])
    }
    // Each request has one trace; the two events of the patch share theirs.
    const seen = new Set([traceId])
    for (const none of [[], [`00-${"0".repeat(32)}-00f067aa0ba902b7-01`], ["nonsense"]]) {
      const [one, two, three] = yield* tracesOf(...none)
      assert.strictEqual(two, three)
      for (const trace of [one ?? "", two ?? ""]) {
        assert.isFalse(seen.has(trace))
        seen.add(trace)
      }
    }
  })

  it.effect("are made for 20 concurrent patches, in the order of versions", function* () {
    const { created: made, patch, read, received } = yield* openSubscribed()
    for (const stages of [["agreed"], ["agreed", "closing", "new"]]) {
      const first = yield* made()
      const changeOf = (index: number) => ({
        title: `Title ${index}`,
        stageId: stages[index % stages.length] ?? assert.fail()
      })
      const answers = yield* atOnce(20, (index) => patch(first.id, changeOf(index)))
      const versions = answers.map((answer) => receiptOf(answer, 200).version)
      assert.sameMembers(versions, numbers(2, 21))

      const events = (yield* received).filter(({ data }) => data.deal.id === first.id)
      const records = [first, ...events.filter(({ type }) => type === updated).map(({ data }) => data.deal)].toSorted(
        (left, right) => left.version - right.version
      )
      assert.deepStrictEqual(
        records.map(({ version }) => version),
        numbers(1, 21)
      )
      for (const [index, version] of versions.entries()) {
        assert.deepInclude(records[version - 1], changeOf(index))
      }
      assert.deepStrictEqual(records.at(-1), yield* read(first.id))
      assert.sameDeepMembers(events, [{ type: created, data: { deal: first } }, ...eventsOfChanges(records)])
    }
  })

  it.effect("are not made for a change that the database refuses", function* () {
    const server = yield* startServer({}, "api")
    const { sql } = server
    const seeded = yield* server.seed({ pipelines, project: { defaultPipelineId: "sales" } })
    const { create, created: made, page, patch, projectId, read } = callsOf(server, seeded)
    yield* subscribe(sql, projectId, "shop")
    const deal = yield* made()
    const before = yield* eventsOf(sql, projectId)
    const keys = [newKey(), newKey()] as const
    const commands = [create({ title: "A" }, keys[0]), patch(deal.id, { stageId: "agreed" }, keys[1])]
    yield* sql`ALTER TABLE deliveries ADD CONSTRAINT broken CHECK (false) NOT VALID`
    for (const command of commands) problemOf(yield* command, 500, "internal")
    assert.deepStrictEqual((yield* page()).items, [deal])
    assert.deepStrictEqual(yield* eventsOf(sql, projectId), before)

    yield* sql`ALTER TABLE deliveries DROP CONSTRAINT broken`
    for (const command of commands) {
      const answer = yield* command
      assert.deepInclude(receiptOf(answer, answer.status === 201 ? 201 : 200), { changed: true, replayed: false })
    }
    assert.deepInclude(yield* read(deal.id), { stageId: "agreed", version: 2 })
    assert.strictEqual((yield* eventsOf(sql, projectId)).length, before.length + 3)
  })

  it.effect("are not appended for a project file, whose stage is the previous one of the next patch", function* () {
    const { apply, patched, received } = yield* openSubscribed()
    yield* apply({ deals: [{ id: "d", title: "A", status: "won" }] })
    yield* apply({ pipelines: pipelines.map((pipeline) => ({ ...pipeline, name: "Other" })) })
    yield* apply({ deals: [{ id: "d", title: "B", status: "open", stageId: "closing", lifecycle: "archived" }] })
    assert.deepStrictEqual(yield* received, [])
    const deal = yield* patched("d", { stageId: "agreed" })
    assert.deepStrictEqual(yield* received, [
      { type: updated, data: { deal, previous: { stageId: "closing" } } },
      { type: stageChanged, data: { deal, previousStageId: "closing", previous: { stageId: "closing" } } }
    ])
  })
})
