/** Leases of recipients: the statements that claim, record and reclaim them, at chosen times (contract §9). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { released } from "../../src/campaigns/Runner/Results.ts"
import { maxAttempts } from "../../src/messaging/RetrySchedule.ts"
import { TestServer } from "../support/TestServer.ts"
import { accepted, lease, nowhere, postponed, refused, resultOf, scene } from "./Runner.scene.support.ts"
import { httpChannel } from "./Runner.support.ts"

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("a campaign recipient", (it) => {
  it.effect("is claimed by no other worker until its lease has ended", () =>
    Effect.gen(function* () {
      const { claimed, reclaim, recipientState } = yield* scene()
      yield* claimed(0)
      yield* reclaim(lease - 1)
      assert.strictEqual(yield* recipientState, "sending primary 1")
      yield* reclaim(lease)
      assert.strictEqual(yield* recipientState, "pending primary 1 in doubt")
      const { attempt, inDoubt } = yield* claimed(lease)
      assert.deepStrictEqual({ attempt, inDoubt }, { attempt: 2, inDoubt: true })
    })
  )

  it.effect("is not called again after a lost lease when the provider has no idempotency keys", () =>
    Effect.gen(function* () {
      const { claimed, reclaim, record, recipientState } = yield* scene({ primaryType: "telegram", fallback: nowhere })
      const first = yield* claimed(0)
      yield* reclaim(lease)
      assert.strictEqual(yield* recipientState, "unknown primary 1 in doubt")
      // A worker whose lease has ended cannot record it as sent.
      yield* record(resultOf(first, accepted))
      assert.strictEqual(yield* recipientState, "unknown primary 1 in doubt")
    })
  )

  it.effect("holds no lease while it waits for the next attempt", () =>
    Effect.gen(function* () {
      const { claimed, reclaim, record, recipientState } = yield* scene({ primaryType: "telegram" })
      yield* record(resultOf(yield* claimed(0), postponed))
      yield* reclaim(2 * lease)
      assert.strictEqual(yield* recipientState, "pending primary 1")
    })
  )

  it.effect("keeps the route of its last call when the lease is lost", () =>
    Effect.gen(function* () {
      const { claimed, reclaim, record, recipientState } = yield* scene({ primaryType: "telegram", fallback: nowhere })
      yield* record(resultOf(yield* claimed(0), refused))
      assert.strictEqual(yield* recipientState, "pending fallback 0")
      const { route } = yield* claimed(1)
      assert.strictEqual(route, "fallback")
      yield* reclaim(1 + lease)
      assert.strictEqual(yield* recipientState, "pending fallback 1 in doubt")
    })
  )

  it.effect("is not called again after a lost lease when the channel's new provider has no idempotency keys", () =>
    Effect.gen(function* () {
      const { apply, claimed, claims, record, recipientState } = yield* scene({ fallback: nowhere })
      yield* record(resultOf(yield* claimed(0), { _tag: "unknown", errorCode: "http_500" }))
      assert.strictEqual(yield* recipientState, "pending primary 1 in doubt")
      yield* apply({
        channels: [{ id: "primary", providerType: "telegram", displayName: "Bot", config: { token: "1:a" } }]
      })
      assert.deepStrictEqual(yield* claims(lease), [])
      assert.strictEqual(yield* recipientState, "unknown primary 1 in doubt")
    })
  )

  it.effect("is not called again after a lost lease when the provider of the call had no idempotency keys", () =>
    Effect.gen(function* () {
      const { apply, claimed, claims, reclaim, recipientState } = yield* scene({ primaryType: "telegram" })
      yield* claimed(0)
      yield* apply({ channels: [httpChannel("primary", nowhere)] })
      yield* reclaim(lease)
      assert.strictEqual(yield* recipientState, "unknown primary 1 in doubt")
      assert.deepStrictEqual(yield* claims(2 * lease), [])
    })
  )

  it.effect("fails after five lost leases in a row", () =>
    Effect.gen(function* () {
      const { claimed, reclaim, recipientState } = yield* scene()
      for (let attempt = 1; attempt <= maxAttempts; attempt++) {
        yield* claimed(2 * attempt * lease)
        yield* reclaim((2 * attempt + 1) * lease)
      }
      assert.strictEqual(yield* recipientState, "unknown primary 5 in doubt")
    })
  )

  it.effect("ignores a result that arrives while another worker holds the lease", () =>
    Effect.gen(function* () {
      const { claimed, reclaim, record, recipientState } = yield* scene()
      const first = yield* claimed(0)
      yield* reclaim(lease)
      yield* record(resultOf(first, refused))
      assert.strictEqual(yield* recipientState, "pending primary 1 in doubt")
      const second = yield* claimed(lease)
      yield* record(resultOf(first, refused))
      assert.strictEqual(yield* recipientState, "sending primary 2 in doubt")
      yield* record(resultOf(second, accepted))
      yield* record(resultOf(first, refused))
      assert.strictEqual(yield* recipientState, "sent primary 2 in doubt")
    })
  )

  it.effect("stays on the fallback when the result that led there is recorded twice", () =>
    Effect.gen(function* () {
      const { claimed, record, recipientState } = yield* scene({ fallback: nowhere })
      const diverted = resultOf(yield* claimed(0), refused)
      yield* record(diverted)
      yield* claimed(1)
      yield* record(diverted)
      assert.strictEqual(yield* recipientState, "sending fallback 1")
    })
  )

  it.effect("is unchanged when a claim is returned before the call", () =>
    Effect.gen(function* () {
      const { claimed, record, recipientState } = yield* scene({ primaryType: "telegram" })
      yield* record(released(yield* claimed(0)))
      assert.strictEqual(yield* recipientState, "pending primary 0")
      const { attempt, inDoubt } = yield* claimed(1)
      assert.deepStrictEqual({ attempt, inDoubt }, { attempt: 1, inDoubt: false })
    })
  )
})
