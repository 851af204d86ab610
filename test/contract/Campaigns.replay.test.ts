/** Campaign commands that are repeated with their idempotency key (contract §5, §9). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { problemOf, receiptOf } from "../support/ContractAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { everybody, open } from "./Campaigns.support.ts"

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("a repeated campaign command", (it) => {
  it.effect("gets the same answer and has no second effect", () =>
    Effect.gen(function* () {
      const { command, done, exists, read, ready } = yield* open()
      yield* ready("spring")
      const repeated = Effect.fnUntraced(function* (id: string, body: object) {
        const key = `key-${JSON.stringify(body).length}-${id}`
        const first = receiptOf(yield* command(id, body, key), 200)
        for (const _ of [1, 2]) {
          assert.deepStrictEqual(receiptOf(yield* command(id, body, key), 200), { ...first, replayed: true })
        }
        problemOf(yield* command(id, { operation: "resume" }, key), 409, "idempotency_key_reused")
        return first
      })
      yield* repeated("spring", { operation: "rename", expectedVersion: 3, name: "Summer" })
      assert.strictEqual((yield* read("spring")).version, 4)
      const { resourceId } = yield* repeated("spring", { operation: "duplicate" })
      assert.notStrictEqual(resourceId, "spring")
      const frozen = yield* repeated("spring", { operation: "freeze_audience", filter: everybody })
      assert.strictEqual(frozen.version, 5)
      yield* repeated("spring", { operation: "schedule", scheduledForLocal: "2999-01-01T00:00", sendsPerMinute: 1 })
      yield* repeated("spring", { operation: "pause" })
      // A replay succeeds whatever the first request and later commands have changed.
      yield* done("spring", { operation: "cancel" })
      yield* repeated("spring", { operation: "delete", expectedVersion: 8 })
      assert.isFalse(yield* exists("spring"))
    })
  )

  it.effect("is recognised by its meaning when defaults are written out", () =>
    Effect.gen(function* () {
      const { command } = yield* open()
      const freeze = (filter: object) => command("spring", { operation: "freeze_audience", filter }, "one-key")
      const first = receiptOf(yield* freeze(everybody), 200)
      const spelt = {
        readyStampOfferIds: [],
        minimumLoyaltyBalance: null,
        loyaltyLevelIds: [],
        loyaltyCardRequired: false,
        segmentId: null,
        ...everybody
      }
      assert.deepStrictEqual(receiptOf(yield* freeze(spelt), 200), { ...first, replayed: true })
      problemOf(yield* freeze({ ...spelt, minimumLoyaltyBalance: 0 }), 409, "idempotency_key_reused")
    })
  )
})
