/** The moves of a deal: its status, its lifecycle, and the members that change with them (contract §7). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { type DealLifecycle, dealStatuses, type DealStatus } from "../../src/api/crm/Deals.ts"
import { targetsOf } from "../../src/api/States.ts"
import { faultsOf, problemOf, receiptOf } from "../support/ContractAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { open } from "./Deals.support.ts"

const statuses: ReadonlyArray<DealStatus> = ["open", "won", "lost"]

const lifecycles: ReadonlyArray<readonly [from: DealLifecycle, to: DealLifecycle]> = [
  ["active", "archived"],
  ["archived", "active"]
]

/** Creates a deal with a status; a lost deal has a reason. */
const openIn = Effect.fnUntraced(function* (status: DealStatus) {
  const calls = yield* open()
  const deal = yield* calls.created()
  const close = status === "lost" ? { status, lostReason: "No budget" } : { status }
  const before = status === "open" ? deal : yield* calls.patched(deal.id, close)
  // The next change happens in another millisecond.
  yield* Effect.sleep(2)
  return { ...calls, id: deal.id, before }
})

layer(TestServer.layer(), { excludeTestServices: true })("a deal", (it) => {
  it.effect("has a lost reason only while it is lost", () =>
    Effect.gen(function* () {
      const { before, id, patch, patched, read } = yield* openIn("lost")
      const { closedAt, updatedAt } = before
      assert.strictEqual(closedAt, updatedAt)
      const lost = (lostReason: string | null) => ({ status: "lost" as const, closedAt, lostReason })
      assert.deepInclude(before, lost("No budget"))
      assert.deepInclude(yield* patched(id, { title: "B" }), lost("No budget"))
      assert.deepInclude(yield* patched(id, { status: "lost", lostReason: "Price" }), lost("Price"))
      assert.deepInclude(yield* patched(id, { lifecycle: "archived" }), lost("Price"))
      assert.deepInclude(yield* patched(id, { lostReason: null }), lost(null))
      assert.deepInclude(yield* patched(id, { lostReason: "Late" }), lost("Late"))
      // The rule applies to the resulting record: an open deal has no reason.
      assert.deepStrictEqual(faultsOf(yield* patch(id, { status: "open", lostReason: "Late" })), ["body/lostReason"])
      assert.deepInclude(yield* read(id), lost("Late"))
      const reopened = yield* patched(id, { status: "open" })
      assert.deepInclude(reopened, { status: "open", lostReason: null, closedAt: null, lifecycle: "archived" })
      assert.deepInclude(yield* patched(id, { status: "lost" }), { status: "lost", lostReason: null })
      assert.deepInclude(yield* patched(id, { status: "open", lostReason: null }), { status: "open", closedAt: null })
    })
  )

  it.effect("has the moves of the contract in its state machine", () =>
    Effect.sync(() => {
      assert.deepStrictEqual(
        statuses.map((from) => [from, targetsOf(dealStatuses, from)]),
        [
          ["open", ["won", "lost"]],
          ["won", ["open"]],
          ["lost", ["open"]]
        ]
      )
    })
  )

  for (const from of statuses) {
    for (const to of statuses) {
      const allowed = targetsOf(dealStatuses, from).includes(to)
      if (from === to) {
        it.effect(`stays ${to} without a change of closedAt and lostReason`, () =>
          Effect.gen(function* () {
            const { before, id, patch, patched, read } = yield* openIn(from)
            const { changed, version } = receiptOf(yield* patch(id, { status: to }), 200)
            assert.deepStrictEqual([changed, version], [false, before.version])
            assert.deepStrictEqual(yield* read(id), before)
            const after = yield* patched(id, { status: to, title: "B" })
            const { closedAt, lostReason } = before
            assert.deepInclude(after, { title: "B", status: to, closedAt, lostReason })
          })
        )
      } else if (allowed) {
        it.effect(`moves from ${from} to ${to}`, () =>
          Effect.gen(function* () {
            const { before, id, patched } = yield* openIn(from)
            const after = yield* patched(id, { status: to })
            assert.deepStrictEqual(after, {
              ...before,
              status: to,
              lostReason: null,
              closedAt: to === "open" ? null : after.updatedAt,
              version: before.version + 1,
              updatedAt: after.updatedAt
            })
            assert.isAbove(Date.parse(after.updatedAt), Date.parse(before.updatedAt))
          })
        )
      } else {
        it.effect(`does not move from ${from} to ${to}`, () =>
          Effect.gen(function* () {
            const { before, id, patch, read } = yield* openIn(from)
            for (const more of [{}, { title: "B", stageId: "closing" }, to === "lost" ? { lostReason: "x" } : {}]) {
              problemOf(yield* patch(id, { status: to, ...more }), 400, "deal_status_invalid")
            }
            assert.deepStrictEqual(yield* read(id), before)
          })
        )
      }
    }
  }

  for (const [from, to] of lifecycles) {
    it.effect(`moves from ${from} to ${to} in every status, and keeps all else`, () =>
      Effect.gen(function* () {
        for (const status of statuses) {
          const { before, id, patch, patched } = yield* openIn(status)
          const deal = from === "active" ? before : yield* patched(id, { lifecycle: from })
          assert.isFalse(receiptOf(yield* patch(id, { lifecycle: from }), 200).changed)
          const after = yield* patched(id, { lifecycle: to })
          const { updatedAt } = after
          assert.deepStrictEqual(after, { ...deal, lifecycle: to, version: deal.version + 1, updatedAt })
        }
      })
    )
  }

  it.effect("is patched like any other while it is archived", () =>
    Effect.gen(function* () {
      const { created, patched } = yield* open()
      const { id } = yield* created()
      yield* patched(id, { lifecycle: "archived" })
      const change = { title: "B", clientId: "c", stageId: "closing", status: "won" as const }
      assert.deepInclude(yield* patched(id, change), { ...change, lifecycle: "archived", version: 3 })
    })
  )

  it.effect("is closed by one of two concurrent moves", () =>
    Effect.gen(function* () {
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
  )
})
