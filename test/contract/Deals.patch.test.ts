/** Deals: what a patch does (contract §7). */
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { faultsOf, problemOf, receiptOf } from "../support/ContractAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { open } from "./Deals.support.ts"

const full = {
  title: "Espresso machines",
  clientId: "c",
  organizationId: "o",
  amountMinor: 1_250_000,
  currency: "EUR",
  expectedCloseDate: "2026-12-15",
  responsibleMemberId: "m"
}

layer(TestServer.layer(), { excludeTestServices: true })("a patch of a deal", (it) => {
  it.effect("keeps members that it omits, and clears members set to null", () =>
    Effect.gen(function* () {
      const { created, patch, read } = yield* open()
      let before = yield* created(full)
      for (const change of [
        { title: "Grinders" },
        { clientId: "gone", organizationId: "old", responsibleMemberId: "idle" },
        { amountMinor: 0 },
        { currency: "JPY" },
        { amountMinor: 9_007_199_254_740_991, currency: "USD" },
        { expectedCloseDate: "2027-01-01" },
        { stageId: "closing" },
        { pipelineId: "service", stageId: "done" },
        { lifecycle: "archived" },
        { clientId: null },
        { organizationId: null, responsibleMemberId: null },
        { amountMinor: null, currency: null },
        { amountMinor: 5, currency: "EUR", title: "\u00e9" },
        { expectedCloseDate: null, title: "e\u0301" }
      ]) {
        yield* Effect.sleep(2)
        const version = before.version + 1
        assert.deepStrictEqual(receiptOf(yield* patch(before.id, change), 200), {
          resourceId: before.id,
          changed: true,
          version,
          replayed: false
        })
        const after = yield* read(before.id)
        assert.deepStrictEqual(after, { ...before, ...change, version, updatedAt: after.updatedAt })
        assert.isAbove(Date.parse(after.updatedAt), Date.parse(before.updatedAt))
        before = after
      }
    })
  )

  it.effect("with the deal's current values changes nothing", () =>
    Effect.gen(function* () {
      const { created, patch, patched, read } = yield* open()
      const { id } = yield* created(full)
      const deal = yield* patched(id, { status: "lost", lostReason: "No budget", stageId: "closing" })
      const { closedAt: _, createdAt: __, id: ___, updatedAt: ____, version, ...members } = deal
      yield* Effect.sleep(2)
      for (const same of [members, ...Object.entries(members).map(([name, value]) => ({ [name]: value }))]) {
        assert.deepStrictEqual(
          receiptOf(yield* patch(id, same), 200),
          { resourceId: id, changed: false, version, replayed: false },
          JSON.stringify(same)
        )
      }
      assert.deepStrictEqual(yield* read(id), deal)
    })
  )

  it.effect("answers deal_not_found for a deal that the project lacks", () =>
    Effect.gen(function* () {
      const { created, read } = yield* open()
      const deal = yield* created()
      const stranger = yield* open()
      const { detail } = problemOf(yield* stranger.patch("nothing", { title: "B" }), 404, "deal_not_found")
      for (const body of [{ title: "B" }, { clientId: "nobody" }, { lostReason: "x" }, { amountMinor: 1 }]) {
        assert.strictEqual(problemOf(yield* stranger.patch(deal.id, body), 404, "deal_not_found").detail, detail)
      }
      assert.deepStrictEqual(yield* read(deal.id), deal)
    })
  )

  it.effect("refers only to records of the project", () =>
    Effect.gen(function* () {
      const { created, patch, read } = yield* open()
      yield* open({
        clients: [{ id: "their client", displayName: "C" }],
        pipelines: [{ id: "their pipeline", name: "P", stages: [{ id: "their stage", name: "S" }] }],
        project: { defaultPipelineId: "their pipeline" }
      })
      const deal = yield* created(full)
      for (const change of [
        { clientId: "nobody" },
        { clientId: "o" },
        { clientId: "their client" },
        { organizationId: "nobody" },
        { responsibleMemberId: "nobody" },
        { pipelineId: "nothing" },
        { pipelineId: "their pipeline" },
        { pipelineId: "their pipeline", stageId: "their stage" },
        { stageId: "nothing" },
        { stageId: "their stage" },
        { clientId: null, organizationId: "nobody", stageId: "nothing" }
      ]) {
        problemOf(yield* patch(deal.id, { title: "B", ...change }), 404, "deal_reference_not_found")
      }
      assert.deepStrictEqual(yield* read(deal.id), deal)
    })
  )

  it.effect("moves to the first stage of a new pipeline by default, and only to stages of the pipeline", () =>
    Effect.gen(function* () {
      const { created, patch, patched, read } = yield* open()
      const { id } = yield* created({ stageId: "closing" })
      const place = (pipelineId: string, stageId: string) => ({ pipelineId, stageId })
      // The same pipeline is no new one.
      assert.isFalse(receiptOf(yield* patch(id, { pipelineId: "sales" }), 200).changed)
      assert.deepInclude(yield* patched(id, { title: "B", pipelineId: "sales" }), place("sales", "closing"))
      for (const stray of [
        { stageId: "done" },
        { pipelineId: "sales", stageId: "done" },
        { pipelineId: "service", stageId: "closing" }
      ]) {
        problemOf(yield* patch(id, stray), 404, "deal_reference_not_found")
      }
      assert.deepInclude(yield* read(id), place("sales", "closing"))
      assert.deepInclude(yield* patched(id, { pipelineId: "service" }), place("service", "intake"))
      assert.deepInclude(yield* patched(id, { stageId: "done" }), place("service", "done"))
      assert.deepInclude(yield* patched(id, { pipelineId: "sales" }), place("sales", "new"))
      assert.deepInclude(yield* patched(id, place("service", "done")), place("service", "done"))
    })
  )

  for (const [what, deal, change, faults] of [
    ["an amount for a deal without a currency", {}, { amountMinor: 1 }, ["currency"]],
    ["a currency for a deal without an amount", {}, { currency: "EUR" }, ["amountMinor"]],
    ["an amount, and no currency in words", {}, { amountMinor: 1, currency: null }, ["currency"]],
    ["the amount away, and leaves the currency", full, { amountMinor: null }, ["amountMinor"]],
    ["the currency away, and leaves the amount", full, { currency: null }, ["currency"]],
    ["a new amount, and the currency away", full, { amountMinor: 7, currency: null }, ["currency"]],
    ["a reason for losing an open deal", full, { lostReason: "x" }, ["lostReason"]],
    ["a reason for losing a deal that it wins", full, { status: "won", lostReason: "x" }, ["lostReason"]],
    ["an amount alone, and a reason too", {}, { amountMinor: 1, lostReason: "x" }, ["currency", "lostReason"]],
    ["both halves of that wrong", full, { amountMinor: null, lostReason: "x" }, ["amountMinor", "lostReason"]]
  ] as const) {
    it.effect(`is refused when it gives ${what}`, () =>
      Effect.gen(function* () {
        const { created, patch, read } = yield* open()
        const before = yield* created({ ...deal })
        assert.deepStrictEqual(
          faultsOf(yield* patch(before.id, { title: "B", ...change })),
          faults.map((name) => `body/${name}`)
        )
        assert.deepStrictEqual(yield* read(before.id), before)
      })
    )
  }

  it.effect("keeps every member that concurrent patches change", () =>
    Effect.gen(function* () {
      const { created, patch, read } = yield* open()
      // Each sets a member of its own: none may write back what it read before another's change.
      const changes = [
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
      for (let round = 0; round < 5; round++) {
        const { id } = yield* created()
        const answers = yield* Effect.forEach(changes, (change) => patch(id, change), { concurrency: "unbounded" })
        assert.sameMembers(
          answers.map((answer) => receiptOf(answer, 200).version),
          changes.map((_, index) => index + 2)
        )
        assert.deepInclude(yield* read(id), Object.assign({ version: changes.length + 1 }, ...changes))
      }
    })
  )

  it.effect("checks only its own references when the deal changes while it waits", () =>
    Effect.gen(function* () {
      const { created, patch, projectId, read, server } = yield* open()
      const { sql } = server
      const { id } = yield* created()
      const waiting = yield* sql.withTransaction(
        Effect.gen(function* () {
          yield* sql`SELECT FROM deals WHERE project_id = ${projectId} AND id = ${id} FOR UPDATE`
          const waiting = yield* Effect.forkChild(patch(id, { title: "B" }))
          yield* sql`SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))`.pipe(
            Effect.repeat({ until: (waiting) => waiting.length > 0 })
          )
          yield* sql`
            INSERT INTO clients (project_id, id, display_name, tags, status, version, created_at, updated_at)
            VALUES (${projectId}, 'new', 'New', '{}', 'active', 1, now(), now())`
          yield* sql`UPDATE deals SET client_id = 'new' WHERE project_id = ${projectId} AND id = ${id}`
          return waiting
        })
      )
      receiptOf(yield* Fiber.join(waiting), 200)
      assert.deepInclude(yield* read(id), { title: "B", clientId: "new" })
    })
  )
})
