/** The events of deals, and the changes that emit none (contract §7 and §10). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { faultsOf, problemOf, receiptOf } from "../support/ContractAnswers.ts"
import { eventsOf, type EventType } from "../support/Events.ts"
import { api, created, eventsOfChanges, openSubscribed, stageChanged, updated } from "./Deals.events.support.ts"
import { pipelines } from "./Deals.support.ts"
import { newKey } from "./Requests.ts"

layer(api, { excludeTestServices: true })("the events of a deal", (it) => {
  it.effect("contain a new deal as a get shows it", () =>
    Effect.gen(function* () {
      const { created: made, projectId, sql, received } = yield* openSubscribed()
      const bare = yield* made()
      const full = yield* made({
        clientId: "c",
        organizationId: "o",
        pipelineId: "service",
        stageId: "done",
        amountMinor: 2 ** 53 - 1,
        currency: "EUR",
        expectedCloseDate: "2024-02-29",
        responsibleMemberId: "m"
      })
      assert.sameDeepMembers(yield* received, [
        { type: created, data: { deal: bare } },
        { type: created, data: { deal: full } }
      ])
      for (const { data, id, occurredAt } of yield* eventsOf(sql, projectId)) {
        assert.match(id, /^evt_/)
        assert.deepInclude(data, { deal: [bare, full].find(({ createdAt }) => createdAt === occurredAt.toISOString()) })
      }
    })
  )

  for (const title of [
    "'; DROP TABLE deals --",
    '"\\',
    "\u0001\n\u2028",
    "e\u0301 é",
    "😀".repeat(160),
    "</script>&amp;"
  ]) {
    it.effect(`contain the title ${JSON.stringify(title)} unchanged`, () =>
      Effect.gen(function* () {
        const { created: made, patched, received } = yield* openSubscribed()
        const deal = yield* made({ title })
        const lost = yield* patched(deal.id, { status: "lost", lostReason: title })
        assert.strictEqual(lost.lostReason, title)
        assert.deepStrictEqual(yield* received, [{ type: created, data: { deal } }, ...eventsOfChanges([deal, lost])])
      })
    )
  }

  it.effect("contain the deal as it was after each change", () =>
    Effect.gen(function* () {
      const { created: made, patched, received } = yield* openSubscribed()
      const records = [yield* made()]
      const { id } = records[0] ?? assert.fail()
      for (const change of [
        { title: "B" },
        { clientId: "gone", organizationId: "old", responsibleMemberId: "idle" },
        { amountMinor: 0, currency: "JPY" },
        { stageId: "closing" },
        { status: "lost", lostReason: "x" },
        { lifecycle: "archived" },
        { pipelineId: "service" },
        { pipelineId: "sales", stageId: "agreed", title: "C", status: "open" },
        { status: "won", lifecycle: "active" },
        { amountMinor: null, currency: null, clientId: null, organizationId: null, responsibleMemberId: null }
      ]) {
        records.push(yield* patched(id, change))
      }
      const events = yield* received
      assert.deepStrictEqual(events, [{ type: created, data: { deal: records[0] } }, ...eventsOfChanges(records)])
      assert.strictEqual(events.filter(({ type }) => type === stageChanged).length, 3)
    })
  )

  const patches: ReadonlyArray<readonly [what: string, change: object, types: ReadonlyArray<EventType>]> = [
    ["a title", { title: "B" }, [updated]],
    ["a status", { status: "won" }, [updated]],
    ["a lifecycle", { lifecycle: "archived" }, [updated]],
    ["a stage", { stageId: "agreed" }, [updated, stageChanged]],
    ["a pipeline, and the stage with it", { pipelineId: "service" }, [updated, stageChanged]],
    ["a title, with the stage as it is", { title: "B", stageId: "new" }, [updated]],
    ["a title, with the pipeline as it is", { title: "B", pipelineId: "sales" }, [updated]],
    ["nothing, with the stage as it is", { stageId: "new" }, []],
    ["nothing", { title: "New", status: "open", lostReason: null }, []]
  ]
  for (const [what, change, types] of patches) {
    it.effect(`of a patch that changes ${what} are ${types.join(", ") || "none"}`, () =>
      Effect.gen(function* () {
        const { created: made, patch, received } = yield* openSubscribed()
        const { id } = yield* made()
        receiptOf(yield* patch(id, change), 200)
        const [, ...events] = yield* received
        assert.deepStrictEqual(
          events.map(({ type }) => type),
          [...types]
        )
      })
    )
  }

  it.effect("are not appended for a replay, a refused command or a command without a change", () =>
    Effect.gen(function* () {
      const { create, patch, received } = yield* openSubscribed()
      const [one, two] = [newKey(), newKey()]
      const { resourceId: id } = receiptOf(yield* create({ title: "A" }, one), 201)
      receiptOf(yield* patch(id, { stageId: "agreed" }, two), 200)
      const before = yield* received
      assert.strictEqual(before.length, 3)
      assert.isTrue(receiptOf(yield* create({ title: "A" }, one), 201).replayed)
      assert.isTrue(receiptOf(yield* patch(id, { stageId: "agreed" }, two), 200).replayed)
      assert.isFalse(receiptOf(yield* patch(id, { stageId: "agreed" }), 200).changed)
      problemOf(yield* create({ title: "B" }, one), 409, "idempotency_key_reused")
      problemOf(yield* patch(id, { title: "B" }, two), 409, "idempotency_key_reused")
      problemOf(yield* create({ title: "A", clientId: "nobody" }), 404, "deal_reference_not_found")
      problemOf(yield* patch("nothing", { title: "B" }), 404, "deal_not_found")
      problemOf(yield* patch(id, { title: "B", stageId: "nothing" }), 404, "deal_reference_not_found")
      faultsOf(yield* create({ title: "" }))
      faultsOf(yield* patch(id, { title: "B", lostReason: "x" }))
      receiptOf(yield* patch(id, { status: "won" }), 200)
      problemOf(yield* patch(id, { title: "B", status: "lost" }), 400, "deal_status_invalid")
      assert.deepStrictEqual((yield* received).slice(0, -1), before)
      assert.strictEqual((yield* received).at(-1)?.type, updated)
    })
  )

  it.effect("are not appended for a project file, whose stage is the previous one of the next patch", () =>
    Effect.gen(function* () {
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
  )
})
