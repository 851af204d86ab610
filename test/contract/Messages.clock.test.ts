/** Sends that a provider does not answer, under a test clock (contract §8). */
import { assert, layer } from "../support/Vitest.ts"
import { Clock, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { type Answering, hang } from "../integrations/deliveries/Deliveries.support.ts"
import { untilLive } from "../support/Waiting.ts"
import { messageReceiptOf, unknownOf } from "../support/MessagingAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { newKey } from "./Requests.ts"
import { type Conversation, open } from "./Messages.support.ts"

/** Waits in real time, for work that needs no time of the test clock. */
const settle = TestClock.withLive(Effect.sleep("200 millis"))

/** Advances the clock in steps, with real time between them for the work of fibers that poll. */
const pass = (seconds: number) =>
  Effect.repeat(Effect.andThen(TestClock.adjust("500 millis"), TestClock.withLive(Effect.sleep("20 millis"))), {
    times: seconds * 2 - 1
  })

/** Begins an answer and never ends it. */
const endless: Answering = ({ response }) => void response.writeHead(200, { "content-length": "100" }).write("{")

/** Creates a project and starts a send to a provider that never finishes its answer. */
const sending = Effect.fnUntraced(function* (to: Conversation, answering = hang) {
  const project = yield* open(yield* TestServer, answering)
  const key = newKey()
  const first = yield* Effect.forkChild(project.send(to, key))
  yield* untilLive(() => project.provider.hits.length === 1)
  return { ...project, key, first, start: yield* Clock.currentTimeMillis }
})

layer(TestServer.layer({}, "api"))("a provider that does not answer", (it) => {
  for (const [what, answering] of [
    ["at all", hang],
    ["to the end", endless]
  ] as const) {
    it.effect.each(["http", "telegram"] as const)(`${what} has an unknown outcome after 10 s over %s`, (to) =>
      Effect.gen(function* () {
        const { first, key, provider, row, send, start } = yield* sending(to, answering)
        yield* TestClock.adjust("9999 millis")
        yield* settle
        assert.isUndefined(first.pollUnsafe())
        yield* TestClock.adjust("1 millis")
        const outcome = unknownOf(yield* Fiber.join(first))
        assert.isFalse(outcome.replayed)
        const { log, ...kept } = yield* row(outcome.messageId)
        const next = to === "http" ? new Date(start + 11_000) : null
        assert.deepStrictEqual(kept, { status: "unknown", attempts: 1, attempting: false, availableAt: next })
        assert.deepStrictEqual(log, [
          {
            number: 1,
            status: "unknown",
            startedAt: new Date(start).toISOString(),
            finishedAt: new Date(start + 10_000).toISOString(),
            providerMessageId: null,
            errorCode: "timeout",
            nextAttemptAt: next === null ? null : next.toISOString()
          }
        ])
        if (to === "http") assert.strictEqual(outcome.retryAfter, 1)
        // A late answer changes nothing.
        provider.hits[0]?.response.end("{}")
        yield* settle
        assert.deepInclude(unknownOf(yield* send(to, key)), { messageId: outcome.messageId, replayed: true })
        assert.strictEqual(provider.hits.length, 1)
      })
    )
  }
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
