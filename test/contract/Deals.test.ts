/** Creates, gets and patches of deals (contract §7). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect, Fiber } from "effect"
import { problemOf, receiptOf } from "../support/ContractAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { open } from "./Deals.support.ts"

layer(TestServer.layer(), { excludeTestServices: true })("a deal", (it) => {
  it.effect("requires a pipeline in a project without a default one", function* () {
    const { create, created, page } = yield* open({ project: { defaultPipelineId: null } })
    for (const body of [{ title: "A" }, { title: "A", stageId: "new" }]) {
      problemOf(yield* create(body), 404, "deal_reference_not_found")
    }
    assert.strictEqual((yield* page()).items.length, 0)
    assert.deepInclude(yield* created({ pipelineId: "sales" }), { pipelineId: "sales", stageId: "new" })
  })
})

layer(TestServer.layer(), { excludeTestServices: true })("a patch of a deal", (it) => {
  it.effect("keeps every member that concurrent patches change", function* () {
    const { created, patch, read } = yield* open()
    // Each patch sets other members, and must not write back values that it read before another patch.
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

  it.effect("that closes it succeeds for one of two concurrent outcomes", function* () {
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

  it.effect("checks only its own references when the deal changes while it waits", function* () {
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
})
