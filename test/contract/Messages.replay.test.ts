/** A repeated key of a send calls no provider: it returns the state of the message (contract §5, §8). */
import { assert, layer } from "../support/Vitest.ts"
import { Struct } from "effect"
import { problemOf } from "../support/ContractAnswers.ts"
import { messageReceiptOf, refusedOf, sendOf, unknownOf } from "../support/MessagingAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { newKey } from "./Requests.ts"
import { conversations, open, placesIn, text } from "./Messages.support.ts"
import { status } from "../integrations/deliveries/Deliveries.support.ts"

const hour = 3_600_000
const times = [hour, -hour]
const conversationsAt = (["http", "telegram"] as const).flatMap((to) => times.map((at) => [to, at] as const))

// A server in the role `api` repeats no message, so the state stays unchanged.
layer(TestServer.layer({}, "api"), { excludeTestServices: true })("a replay of a send", (it) => {
  for (const place of Struct.keys(placesIn(hour))) {
    it.effect(`of a message that is ${place} answers its state without a call or a change`, function* () {
      const { ask, leave, provider, rows, send } = yield* open(yield* TestServer)
      for (const [to, availableIn] of conversationsAt) {
        const key = newKey()
        const { messageId } = messageReceiptOf(yield* send(to, key))
        const left = placesIn(availableIn)[place]
        yield* leave(messageId, left)
        const kinds: Readonly<Record<string, string>> = {
          failed: "refused",
          pending: availableIn > 0 ? "pending" : "unknown"
        }
        const kind = kinds[left.status] ?? left.status
        const [before, calls] = [yield* rows, provider.hits.length]
        const answers = [yield* send(to, key), yield* ask(conversations[to].toUpperCase(), { text }, key)]
        for (const answer of answers) {
          const outcome = sendOf(answer)
          assert.deepInclude(outcome, { kind, messageId, replayed: true })
          if (answer.status === 200) {
            const stored = (yield* rows).find(({ id }) => id === messageId)
            assert.deepStrictEqual(messageReceiptOf(answer).attempts, stored?.log)
          }
        }
        assert.deepStrictEqual(yield* rows, before)
        assert.strictEqual(provider.hits.length, calls)
      }
    })
  }

  it.effect("has a Retry-After no earlier than the next attempt", function* () {
    const { leave, send, sent } = yield* open(yield* TestServer)
    const key = newKey()
    const { messageId } = yield* sent(key)
    yield* leave(messageId, { status: "unknown", availableIn: hour })
    const { retryAfter } = unknownOf(yield* send("sandbox", key))
    assert.isTrue(retryAfter > 3_000 && retryAfter <= 3_600, String(retryAfter))
    for (const availableIn of [-hour, 0, null]) {
      yield* leave(messageId, { status: "unknown", availableIn })
      assert.isAtLeast(unknownOf(yield* send("sandbox", key)).retryAfter, 1)
    }
  })

  it.effect("of a refused message refuses its key to another text", function* () {
    const { ask, provider, send } = yield* open(yield* TestServer, status(400))
    for (const to of ["http", "revoked"] as const) {
      const key = newKey()
      const { messageId } = refusedOf(yield* send(to, key))
      problemOf(yield* ask(conversations[to], { text: "Other" }, key), 409, "idempotency_key_reused")
      assert.strictEqual(refusedOf(yield* send(to, key)).messageId, messageId)
    }
    assert.strictEqual(provider.hits.length, 1)
  })
})
