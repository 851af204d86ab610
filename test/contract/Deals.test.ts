/**
 * The rules of deals, creates and patches of deals at the same time, and the installations and the trace of their events (contract
 * §5, §7, §10).
 */
import { assert, layer } from "../support/Vitest.ts"
import { Effect, Fiber } from "effect"
import { type DealShape, problemOf, receiptOf } from "../support/ContractAnswers.ts"
import { enable, eventsOf, subscribe } from "../support/Events.ts"
import { untilBlocking } from "../support/Locks.ts"
import { put } from "../support/Rows.ts"
import { atOnce } from "./Clients.support.ts"
import { api, created, eventsOfChanges, openSubscribed, stageChanged, updated } from "./Deals.events.support.ts"
import { open } from "./Deals.support.ts"
import { assertRefused, follow, now, type Step } from "./Records.support.ts"

/** A text that SQL, JSON or HTML could change on its way into an event. */
const awkward = "'; -- \"\\ \u0001\n\u2028 e\u0301 é </script>&amp;"

/** A deal of which only the title was given; without what the service chooses. */
const fresh: Omit<DealShape, "id" | "createdAt" | "updatedAt"> = {
  title: "A",
  clientId: null,
  organizationId: null,
  pipelineId: "sales",
  stageId: "new",
  status: "open",
  lifecycle: "active",
  amountMinor: null,
  currency: null,
  expectedCloseDate: null,
  responsibleMemberId: null,
  lostReason: null,
  externalId: null,
  closedAt: null,
  version: 1
}

const unknown = [404, "deal_reference_not_found"] as const
const taken = [409, "external_id_taken"] as const
const invalid = (member: string) => [400, "validation_failed", member] as const
const unsettled = [400, "deal_status_invalid"] as const

/** Patches of one deal, in which archived and inactive records may be named, as may an archived deal be patched. */
const steps: ReadonlyArray<Step> = [
  [{}, invalid("body")],
  [{ title: awkward }],
  [{ title: awkward }, "nothing"],
  [{ title: "😀".repeat(160), clientId: "c", organizationId: "o", responsibleMemberId: "m" }],
  [{ clientId: "gone", organizationId: "old", responsibleMemberId: "idle" }],
  [{ title: "B", clientId: "nobody" }, unknown],
  [{ organizationId: "nobody" }, unknown],
  [{ responsibleMemberId: "nobody" }, unknown],
  [{ clientId: null, organizationId: null, responsibleMemberId: null }],
  [{ externalId: "taken" }, taken],
  [{ externalId: "x" }],
  [{ externalId: "x" }, "nothing"],
  [{ externalId: null }],
  [{ expectedCloseDate: "2024-02-29" }],
  [{ amountMinor: 1 }, invalid("body/currency")],
  [{ currency: "EUR" }, invalid("body/amountMinor")],
  [{ amountMinor: 2 ** 53 - 1, currency: "JPY" }],
  [{ amountMinor: null }, invalid("body/amountMinor")],
  [{ currency: null }, invalid("body/currency")],
  [{ amountMinor: 0 }],
  [{ currency: "EUR" }],
  [{ amountMinor: null, currency: null, expectedCloseDate: null }],
  [{ stageId: "closing" }],
  [{ stageId: "intake" }, unknown],
  [{ pipelineId: "sales" }, "nothing"],
  [{ pipelineId: "service" }, { stageId: "intake" }],
  [{ pipelineId: "service", stageId: "new" }, unknown],
  [{ pipelineId: "nothing" }, unknown],
  [{ pipelineId: "sales", stageId: "agreed" }],
  [{ lostReason: "y" }, invalid("body/lostReason")],
  [{ status: "won", lostReason: "y" }, invalid("body/lostReason")],
  [{ status: "lost", lostReason: awkward }, { closedAt: now }],
  [{ status: "won" }, unsettled],
  [{ status: "lost", lostReason: "y" }],
  [{ title: "C", stageId: "new" }],
  [{ status: "open" }, { lostReason: null, closedAt: null }],
  [{ status: "won" }, { closedAt: now }],
  [{ status: "lost" }, unsettled],
  [{ status: "won" }, "nothing"],
  [{ lifecycle: "archived" }],
  [{ title: "D", status: "open" }, { closedAt: null }],
  [{ lifecycle: "active", status: "lost" }, { closedAt: now }]
]

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

  it.effect("is created with what is given and the first stage of its pipeline, or not at all", function* () {
    const { create, created, page } = yield* open()
    const one = yield* created({ title: "A" })
    assert.deepStrictEqual(one, { ...fresh, id: one.id, createdAt: one.createdAt, updatedAt: one.createdAt })
    const given = { pipelineId: "service", clientId: "gone", externalId: "taken", amountMinor: 0, currency: "EUR" }
    assert.deepInclude(yield* created(given), { ...given, stageId: "intake" })
    assert.deepInclude(yield* created({ stageId: "closing" }), { pipelineId: "sales", stageId: "closing" })
    for (const [body, refusal] of [
      [{ clientId: "nobody" }, unknown],
      [{ organizationId: "nobody" }, unknown],
      [{ responsibleMemberId: "nobody" }, unknown],
      [{ pipelineId: "nothing" }, unknown],
      [{ stageId: "intake" }, unknown],
      [{ externalId: "taken" }, taken],
      [{ amountMinor: 1 }, invalid("body/currency")],
      [{ currency: "EUR" }, invalid("body/amountMinor")]
    ] as const) {
      assertRefused(yield* create({ title: "A", ...body }), refusal)
    }
    assert.strictEqual((yield* page()).items.length, 3)
  })

  it.effect(
    "is patched as the contract says, with an event of each change for those that subscribe to it",
    function* () {
      const calls = yield* openSubscribed()
      const { projectId, received, sql } = calls
      yield* calls.created({ externalId: "taken" })
      const { id } = yield* calls.created()
      yield* subscribe(sql, projectId, "moves", [stageChanged])
      yield* subscribe(sql, projectId, "off", undefined, false)
      const records = yield* follow(calls, id, steps)
      const [, , ...events] = yield* received
      assert.deepStrictEqual(events, [...eventsOfChanges(records)])
      for (const { installations, type } of (yield* eventsOf(sql, projectId)).slice(2)) {
        assert.deepStrictEqual(installations, type === stageChanged ? ["moves", "shop"] : ["shop"])
      }
    }
  )

  it.effect(
    "has its events stored for those that subscribe, also while they are disabled, and for no one else",
    function* () {
      const { created: made, patched, projectId, server } = yield* open()
      yield* subscribe(server.sql, projectId, "moves", [stageChanged])
      yield* subscribe(server.sql, projectId, "off", [updated], false)
      yield* patched((yield* made()).id, { stageId: "closing" })
      const events = yield* eventsOf(server.sql, projectId)
      assert.deepStrictEqual(
        events.map(({ installations, type }) => [type, installations]),
        [
          [updated, []],
          [stageChanged, ["moves"]]
        ]
      )
    }
  )

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
