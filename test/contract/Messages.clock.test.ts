/** Sends that a provider does not answer, under a test clock (contract §8). */
import { assert, layer } from "../support/Vitest.ts"
import { Clock, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { messageReceiptOf, unknownOf } from "../support/MessagingAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { newKey } from "./Requests.ts"
import { open } from "./Messages.support.ts"

/** Waits in real time, for work that needs no time of the test clock. */
const settle = TestClock.withLive(Effect.sleep("200 millis"))

/** Advances the clock in steps, with real time between them for the work of fibers that poll. */
const pass = (seconds: number) =>
  Effect.repeat(Effect.andThen(TestClock.adjust("500 millis"), TestClock.withLive(Effect.sleep("20 millis"))), {
    times: seconds * 2 - 1
  })

layer(TestServer.layer({}, "api"))("a message whose process died during the call", (it) => {
  it.effect("is pending until its lease ends, 5 s after the deadline, and unknown from then on", function* () {
    const { leave, provider, row, send } = yield* open(yield* TestServer)
    for (const to of ["http", "telegram"] as const) {
      const key = newKey()
      const { messageId } = messageReceiptOf(yield* send(to, key))
      const now = yield* Clock.currentTimeMillis
      const attempt = { status: "pending", finishedAt: null, providerMessageId: null }
      yield* leave(messageId, { status: "pending", attempting: true, availableIn: 15_000, attempt }, now)
      const calls = provider.hits.length

      // While the lease runs, the process could still record an outcome, so the request waits.
      const asking = yield* Effect.forkChild(send(to, key))
      yield* settle
      yield* pass(9)
      assert.isUndefined(asking.pollUnsafe())
      yield* pass(5)
      const receipt = messageReceiptOf(yield* Fiber.join(asking))
      assert.deepInclude(receipt, { messageId, deliveryStatus: "pending", replayed: true })
      assert.deepInclude(receipt.attempts[0], { number: 1, status: "pending", finishedAt: null, nextAttemptAt: null })

      assert.deepInclude(messageReceiptOf(yield* send(to, key)), { deliveryStatus: "pending", replayed: true })
      yield* TestClock.adjust("999 millis")
      assert.deepInclude(messageReceiptOf(yield* send(to, key)), { deliveryStatus: "pending", replayed: true })
      yield* TestClock.adjust("1 millis")
      assert.deepInclude(unknownOf(yield* send(to, key)), { messageId, replayed: true })
      assert.strictEqual((yield* row(messageId)).status, "pending")
      assert.strictEqual(provider.hits.length, calls)
    }
  })
})
