/** Deals: what a create and a get do (contract §7). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { faultsOf, problemOf, receiptOf } from "../support/ContractAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { dealPath, open, path, pipelines } from "./Deals.support.ts"
import { newKey } from "./Requests.ts"

const full = {
  title: " Espresso machines ",
  clientId: "c",
  organizationId: "o",
  pipelineId: "service",
  stageId: "done",
  amountMinor: 1_250_000,
  currency: "EUR",
  expectedCloseDate: "2026-12-15",
  responsibleMemberId: "m"
}

const nothing = {
  clientId: null,
  organizationId: null,
  amountMinor: null,
  currency: null,
  expectedCloseDate: null,
  responsibleMemberId: null
}

layer(TestServer.layer(), { excludeTestServices: true })("a deal", (it) => {
  it.effect("is created open with the given members, null defaults and the first stage", () =>
    Effect.gen(function* () {
      const { create, read } = yield* open()
      const place = { pipelineId: "sales", stageId: "new" }
      for (const [body, expected] of [
        [full, full],
        [{ title: "A" }, { title: "A", ...place, ...nothing }],
        [
          { title: "A", ...nothing },
          { title: "A", ...place, ...nothing }
        ]
      ] as const) {
        const { changed, replayed, resourceId, version } = receiptOf(yield* create(body), 201)
        assert.deepStrictEqual([changed, replayed, version], [true, false, 1])
        assert.match(resourceId, /^deal_/)
        const { createdAt, updatedAt, ...deal } = yield* read(resourceId)
        assert.deepStrictEqual(deal, {
          ...expected,
          id: resourceId,
          status: "open",
          lifecycle: "active",
          lostReason: null,
          closedAt: null,
          version: 1
        })
        assert.strictEqual(createdAt, updatedAt)
      }
    })
  )

  for (const [given, pipelineId, stageId] of [
    [{}, "sales", "new"],
    [{ stageId: "closing" }, "sales", "closing"],
    [{ pipelineId: "sales" }, "sales", "new"],
    [{ pipelineId: "service" }, "service", "intake"],
    [{ pipelineId: "service", stageId: "done" }, "service", "done"]
  ] as const) {
    it.effect(`created with ${JSON.stringify(given)} is on ${pipelineId}, in ${stageId}`, () =>
      Effect.gen(function* () {
        const { created } = yield* open()
        assert.deepInclude(yield* created(given), { pipelineId, stageId })
      })
    )
  }

  it.effect("starts on the current default pipeline, and existing deals stay where they are", () =>
    Effect.gen(function* () {
      const { apply, created, read } = yield* open()
      const before = yield* created()
      yield* apply({ project: { defaultPipelineId: "service" } })
      assert.deepInclude(yield* created(), { pipelineId: "service", stageId: "intake" })
      yield* apply({ pipelines: pipelines.map((pipeline) => ({ ...pipeline, stages: pipeline.stages.toReversed() })) })
      assert.deepInclude(yield* created(), { pipelineId: "service", stageId: "done" })
      assert.deepInclude(yield* created({ pipelineId: "sales" }), { pipelineId: "sales", stageId: "closing" })
      assert.deepStrictEqual(yield* read(before.id), before)
    })
  )

  it.effect("requires a pipeline in a project without a default one", () =>
    Effect.gen(function* () {
      const { create, created, page } = yield* open({ project: { defaultPipelineId: null } })
      for (const body of [{ title: "A" }, { title: "A", stageId: "new" }]) {
        problemOf(yield* create(body), 404, "deal_reference_not_found")
      }
      assert.strictEqual((yield* page()).items.length, 0)
      assert.deepInclude(yield* created({ pipelineId: "sales" }), { pipelineId: "sales", stageId: "new" })
    })
  )

  it.effect("refers only to records of the project and to a stage of its own pipeline", () =>
    Effect.gen(function* () {
      const { create, created, page } = yield* open()
      yield* open({
        clients: [{ id: "their client", displayName: "C" }],
        organizations: [{ id: "their organization", name: "O" }],
        members: [{ id: "their member", name: "M" }],
        pipelines: [{ id: "their pipeline", name: "P", stages: [{ id: "their stage", name: "S" }] }],
        project: { defaultPipelineId: "their pipeline" }
      })
      const made = yield* created(full)
      for (const change of [
        { clientId: "nobody" },
        { clientId: "o" },
        { clientId: "their client" },
        { organizationId: "nobody" },
        { organizationId: "m" },
        { organizationId: "their organization" },
        { responsibleMemberId: "nobody" },
        { responsibleMemberId: "c" },
        { responsibleMemberId: "their member" },
        { pipelineId: "nothing" },
        { pipelineId: "done" },
        { pipelineId: "their pipeline" },
        { pipelineId: "their pipeline", stageId: "their stage" },
        { stageId: "nothing" },
        { stageId: "service" },
        { stageId: "new" },
        { stageId: "their stage" },
        { pipelineId: "sales" },
        { clientId: "nobody", organizationId: "nobody", responsibleMemberId: "nobody", stageId: "nothing" }
      ]) {
        problemOf(yield* create({ ...full, ...change }), 404, "deal_reference_not_found")
      }
      assert.deepStrictEqual((yield* page()).items, [made])
    })
  )

  it.effect("may refer to archived clients and organizations and to inactive members", () =>
    Effect.gen(function* () {
      const { created } = yield* open()
      const past = { clientId: "gone", organizationId: "old", responsibleMemberId: "idle" }
      assert.deepInclude(yield* created(past), past)
    })
  )

  for (const [body, faults] of [
    [{ amountMinor: 1 }, ["currency"]],
    [{ amountMinor: 0, currency: null }, ["currency"]],
    [{ currency: "EUR" }, ["amountMinor"]],
    [{ currency: "EUR", amountMinor: null }, ["amountMinor"]],
    [{ amountMinor: 1, title: "" }, ["currency", "title"]],
    [{ currency: "EUR", status: "won", expectedCloseDate: "soon" }, ["amountMinor", "expectedCloseDate", "status"]]
  ] as const) {
    it.effect(`is not created with ${JSON.stringify(body)}, with faults at ${faults.join(", ")}`, () =>
      Effect.gen(function* () {
        const { create } = yield* open()
        assert.deepStrictEqual(
          faultsOf(yield* create({ title: "A", ...body })),
          faults.map((name) => `body/${name}`)
        )
      })
    )
  }

  it.effect("is found in its project alone, archived or not", () =>
    Effect.gen(function* () {
      const { created, get, patched, read } = yield* open()
      const { id } = yield* created()
      const archived = yield* patched(id, { lifecycle: "archived" })
      assert.deepStrictEqual(yield* read(id), archived)
      const stranger = yield* open()
      problemOf(yield* get("nothing"), 404, "deal_not_found")
      // A record of another project answers exactly as a record that does not exist.
      const { detail } = problemOf(yield* stranger.get("nothing"), 404, "deal_not_found")
      assert.strictEqual(problemOf(yield* stranger.get(id), 404, "deal_not_found").detail, detail)
    })
  )

  it.effect("is found and changed under any id that a project file gave it", () =>
    Effect.gen(function* () {
      const ids = ["a/b", "..", "100%", "a?b=c", "日本", "😀".repeat(160), "'\"\\", "\u0001", "__proto__"]
      const { patched, read, walk } = yield* open({ deals: ids.map((id) => ({ id, title: "A" })) })
      for (const id of ids) {
        assert.deepInclude(yield* read(id), { id, title: "A", version: 1 })
        assert.deepInclude(yield* patched(id, { title: "Found" }), { id, title: "Found", version: 2 })
      }
      assert.deepStrictEqual((yield* walk("limit=1")).flat().toSorted(), ids.toSorted())
    })
  )

  it.effect("takes any JSON notation of an amount that is an exact integer", () =>
    Effect.gen(function* () {
      const { created, read, server, token } = yield* open()
      const { id } = yield* created()
      const headers = { "content-type": "application/json" }
      const sent = (amount: string) => {
        const members = `"currency":"EUR","amountMinor":${amount}}`
        return Effect.all([
          server.send({ method: "POST", path, token, key: newKey(), headers, body: `{"title":"A",${members}` }),
          server.send({ method: "PATCH", path: dealPath(id), token, key: newKey(), headers, body: `{${members}` })
        ])
      }
      for (const [amount, stored] of [
        ["1.0", 1],
        ["12e2", 1_200],
        ["1500e-2", 15],
        ["-0", 0],
        ["9007199254740991", 9_007_199_254_740_991],
        ["9.007199254740991E+15", 9_007_199_254_740_991]
      ] as const) {
        const [made, patched] = yield* sent(amount)
        receiptOf(patched, 200)
        for (const of of [receiptOf(made, 201).resourceId, id]) {
          assert.strictEqual((yield* read(of)).amountMinor, stored, amount)
        }
      }
      for (const amount of ["9007199254740992", "9007199254740993", "1e400", "-1e400", "1e-1"]) {
        for (const answer of yield* sent(amount)) assert.deepStrictEqual(faultsOf(answer), ["body/amountMinor"], amount)
      }
    })
  )
})
