/** The events of deals, and the changes that emit none (contract §7 and §10). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { eventsOf } from "../support/Events.ts"
import { api, created, eventsOfChanges, openSubscribed, stageChanged, updated } from "./Deals.events.support.ts"
import { pipelines } from "./Deals.support.ts"

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

  it.effect("contain any title and lost reason unchanged", () =>
    Effect.gen(function* () {
      const { created: made, patched, received } = yield* openSubscribed()
      const expected: Array<object> = []
      for (const title of [
        "'; DROP TABLE deals --",
        '"\\',
        "\u0001\n\u2028",
        "e\u0301 é",
        "😀".repeat(160),
        "</script>&amp;"
      ]) {
        const deal = yield* made({ title })
        const lost = yield* patched(deal.id, { status: "lost", lostReason: title })
        assert.strictEqual(lost.lostReason, title)
        expected.push({ type: created, data: { deal } }, ...eventsOfChanges([deal, lost]))
      }
      assert.deepStrictEqual<ReadonlyArray<object>>(yield* received, expected)
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
