/** Deals: what a patch does (contract §7). */
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { receiptOf } from "../support/ContractAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { open } from "./Deals.support.ts"

layer(TestServer.layer(), { excludeTestServices: true })("a patch of a deal", (it) => {
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
