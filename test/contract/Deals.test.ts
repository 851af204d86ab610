/** Creates and patches of deals at the same time, and the installations and the trace of their events (contract §5, §7, §10). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect, Fiber } from "effect"
import { type DealShape, problemOf, receiptOf } from "../support/ContractAnswers.ts"
import { enable, eventsOf, subscribe } from "../support/Events.ts"
import { untilBlocking } from "../support/Locks.ts"
import { put } from "../support/Rows.ts"
import { atOnce } from "./Clients.support.ts"
import { api, created, eventsOfChanges, openSubscribed, updated } from "./Deals.events.support.ts"
import { open } from "./Deals.support.ts"

const numbers = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => from + index)

layer(api, { excludeTestServices: true })("a deal", (it) => {
  it.effect("requires a pipeline when it is created in a project without a default one", function* () {
    const { create, created, page } = yield* open({ project: { defaultPipelineId: null } })
    for (const body of [{ title: "A" }, { title: "A", stageId: "new" }]) {
      problemOf(yield* create(body), 404, "deal_reference_not_found")
    }
    assert.strictEqual((yield* page()).items.length, 0)
    assert.deepInclude(yield* created({ pipelineId: "sales" }), { pipelineId: "sales", stageId: "new" })
  })

  it.effect("is closed by one of two concurrent outcomes", function* () {
    const { created, patch, read } = yield* open()
    for (let round = 0; round < 5; round++) {
      const { id } = yield* created()
      const answers = yield* Effect.forEach(
        Array.from({ length: 12 }, (_, index) => (index % 2 === 0 ? "won" : "lost")),
        (status) => Effect.map(patch(id, { status }), (answer) => ({ answer, status })),
        { concurrency: "unbounded" }
      )
      const deal = yield* read(id)
      assert.strictEqual(deal.version, 2)
      const changed = answers.filter(({ answer, status }) => {
        if (status === deal.status) return receiptOf(answer, 200).changed
        problemOf(answer, 400, "deal_status_invalid")
        return false
      })
      assert.strictEqual(changed.length, 1)
    }
  })

  it.effect(
    "is patched with a check of the patch's own references when it changes while the patch waits",
    function* () {
      const { created, patch, projectId, read, server } = yield* open()
      const { sql } = server
      const { id } = yield* created()
      const waiting = yield* sql.withTransaction(
        Effect.gen(function* () {
          yield* sql`SELECT FROM deals WHERE project_id = ${projectId} AND id = ${id} FOR UPDATE`
          const waiting = yield* Effect.forkChild(patch(id, { title: "B" }))
          yield* untilBlocking(sql)
          yield* put(sql, "clients", { project_id: projectId, id: "new" })
          yield* sql`UPDATE deals SET client_id = 'new' WHERE project_id = ${projectId} AND id = ${id}`
          return waiting
        })
      )
      receiptOf(yield* Fiber.join(waiting), 200)
      assert.deepInclude(yield* read(id), { title: "B", clientId: "new" })
    }
  )
})

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

  it.effect("are made for concurrent patches in the order of versions, and the deal keeps every change", function* () {
    const { created: made, patch, read, received } = yield* openSubscribed()
    // Each sets other members, and must not write back values that it read before another patch.
    const members: ReadonlyArray<Partial<DealShape>> = [
      { title: "B" },
      { clientId: "c" },
      { organizationId: "o" },
      { responsibleMemberId: "m" },
      { amountMinor: 1, currency: "EUR" },
      { expectedCloseDate: "2026-12-15" },
      { stageId: "agreed" },
      { status: "lost", lostReason: "x" },
      { lifecycle: "archived" }
    ]
    const stages = ["agreed", "closing", "new"]
    const moves = Array.from({ length: 20 }, (_, index) => ({
      title: `Title ${index}`,
      stageId: stages[index % 3] ?? ""
    }))
    for (const changes of [members, moves]) {
      const first = yield* made()
      const answers = yield* atOnce(changes.length, (index) => patch(first.id, changes[index]))
      const versions = answers.map((answer) => receiptOf(answer, 200).version)
      assert.sameMembers(versions, numbers(2, changes.length + 1))

      const events = (yield* received).filter(({ data }) => data.deal.id === first.id)
      const records = [first, ...events.filter(({ type }) => type === updated).map(({ data }) => data.deal)].toSorted(
        (left, right) => left.version - right.version
      )
      assert.deepStrictEqual(
        records.map(({ version }) => version),
        numbers(1, changes.length + 1)
      )
      for (const [index, version] of versions.entries()) {
        assert.deepInclude(records[version - 1], changes[index])
      }
      const last = yield* read(first.id)
      assert.deepStrictEqual(records.at(-1), last)
      if (changes === members) assert.deepInclude(last, Object.assign({}, ...members))
      assert.sameDeepMembers(events, [{ type: created, data: { deal: first } }, ...eventsOfChanges(records)])
    }
  })
})
