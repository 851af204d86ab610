/** Leases of recipients: who claims, records and finds what was lost, by the statements that do it, at times of the test's. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { released } from "../../src/campaigns/Runner/Results.ts"
import { maxAttempts } from "../../src/messaging/Messages/Schedule.ts"
import { TestServer } from "../support/TestServer.ts"
import { accepted, lease, nowhere, postponed, refused, resultOf, scene } from "./Runner.scene.support.ts"
import { httpChannel } from "./Runner.support.ts"

layer(TestServer.layer({}, "api"), { excludeTestServices: true, timeout: "60 seconds" })("a recipient", (it) => {
  it.effect("is nobody else's until the lease has ended", () =>
    Effect.gen(function* () {
      const { claimed, reclaim, standing } = yield* scene()
      yield* claimed(0)
      yield* reclaim(lease - 1)
      assert.strictEqual(yield* standing, "sending primary 1")
      yield* reclaim(lease)
      assert.strictEqual(yield* standing, "pending primary 1 in doubt")
      const { attempt, inDoubt } = yield* claimed(lease)
      assert.deepStrictEqual({ attempt, inDoubt }, { attempt: 2, inDoubt: true })
    })
  )

  it.effect("is not called again once the lease was lost, where the provider knows no keys", () =>
    Effect.gen(function* () {
      const { claimed, reclaim, record, standing } = yield* scene({ primaryType: "telegram", fallback: nowhere })
      const first = yield* claimed(0)
      yield* reclaim(lease)
      assert.strictEqual(yield* standing, "unknown primary 1 in doubt")
      // Nor is it told to have been sent by one whose turn is over.
      yield* record(resultOf(first, accepted))
      assert.strictEqual(yield* standing, "unknown primary 1 in doubt")
    })
  )

  it.effect("that waits for another attempt has no lease to lose", () =>
    Effect.gen(function* () {
      const { claimed, reclaim, record, standing } = yield* scene({ primaryType: "telegram" })
      yield* record(resultOf(yield* claimed(0), postponed))
      yield* reclaim(2 * lease)
      assert.strictEqual(yield* standing, "pending primary 1")
    })
  )

  it.effect("goes by the route on which it was called, when the lease is lost", () =>
    Effect.gen(function* () {
      const { claimed, reclaim, record, standing } = yield* scene({ primaryType: "telegram", fallback: nowhere })
      yield* record(resultOf(yield* claimed(0), refused))
      assert.strictEqual(yield* standing, "pending fallback 0")
      const { route } = yield* claimed(1)
      assert.strictEqual(route, "fallback")
      yield* reclaim(1 + lease)
      assert.strictEqual(yield* standing, "pending fallback 1 in doubt")
    })
  )

  it.effect("is not called again where the channel has a provider by now that knows no keys", () =>
    Effect.gen(function* () {
      const { apply, claimed, claims, record, standing } = yield* scene({ fallback: nowhere })
      yield* record(resultOf(yield* claimed(0), { _tag: "unknown", errorCode: "http_500" }))
      assert.strictEqual(yield* standing, "pending primary 1 in doubt")
      yield* apply({
        channels: [{ id: "primary", providerType: "telegram", displayName: "Bot", config: { token: "1:a" } }]
      })
      assert.deepStrictEqual(yield* claims(lease), [])
      assert.strictEqual(yield* standing, "unknown primary 1 in doubt")
    })
  )

  it.effect("is not called again where it was with a provider that knew no keys, whatever the channel has by now", () =>
    Effect.gen(function* () {
      const { apply, claimed, claims, reclaim, standing } = yield* scene({ primaryType: "telegram" })
      yield* claimed(0)
      yield* apply({ channels: [httpChannel("primary", nowhere)] })
      yield* reclaim(lease)
      assert.strictEqual(yield* standing, "unknown primary 1 in doubt")
      assert.deepStrictEqual(yield* claims(2 * lease), [])
    })
  )

  it.effect("is given up when five leases in a row were lost", () =>
    Effect.gen(function* () {
      const { claimed, reclaim, standing } = yield* scene()
      for (let attempt = 1; attempt <= maxAttempts; attempt++) {
        yield* claimed(2 * attempt * lease)
        yield* reclaim((2 * attempt + 1) * lease)
      }
      assert.strictEqual(yield* standing, "unknown primary 5 in doubt")
    })
  )

  it.effect("is not settled by a result that comes when somebody else is at it", () =>
    Effect.gen(function* () {
      const { claimed, reclaim, record, standing } = yield* scene()
      const first = yield* claimed(0)
      yield* reclaim(lease)
      yield* record(resultOf(first, refused))
      assert.strictEqual(yield* standing, "pending primary 1 in doubt")
      const second = yield* claimed(lease)
      yield* record(resultOf(first, refused))
      assert.strictEqual(yield* standing, "sending primary 2 in doubt")
      yield* record(resultOf(second, accepted))
      yield* record(resultOf(first, refused))
      assert.strictEqual(yield* standing, "sent primary 2 in doubt")
    })
  )

  it.effect("is not taken from the fallback by the result that led there, when that is recorded again", () =>
    Effect.gen(function* () {
      const { claimed, record, standing } = yield* scene({ fallback: nowhere })
      const diverted = resultOf(yield* claimed(0), refused)
      yield* record(diverted)
      yield* claimed(1)
      yield* record(diverted)
      assert.strictEqual(yield* standing, "sending fallback 1")
    })
  )

  it.effect("that is given back before the call is as if it had never been claimed", () =>
    Effect.gen(function* () {
      const { claimed, record, standing } = yield* scene({ primaryType: "telegram" })
      yield* record(released(yield* claimed(0)))
      assert.strictEqual(yield* standing, "pending primary 0")
      const { attempt, inDoubt } = yield* claimed(1)
      assert.deepStrictEqual({ attempt, inDoubt }, { attempt: 1, inDoubt: false })
    })
  )
})
