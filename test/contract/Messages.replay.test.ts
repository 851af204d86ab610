/** A repeated key of a send calls no provider: it returns the state of the message (contract §5, §8). */
import { assert, layer } from "../support/Vitest.ts"
import { problemOf } from "../support/ContractAnswers.ts"
import { messageReceiptOf, refusedOf, sendOf, unknownOf } from "../support/MessagingAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { newKey } from "./Requests.ts"
import { conversations, type Left, open, text } from "./Messages.support.ts"
import { status } from "../integrations/deliveries/Deliveries.support.ts"

const hour = 3_600_000
const begun = { status: "pending", finishedAt: null, providerMessageId: null, errorCode: null, nextAttemptAt: null }
const ended = (status: string, nextAttemptAt: string | null = null) => ({
  status,
  providerMessageId: null,
  errorCode: "left_so",
  nextAttemptAt
})

/** States of a message as another process could have left it, and the kind of the answer. */
const states: ReadonlyArray<readonly [what: string, left: Left, kind: string]> = [
  [
    "pending, while its lease runs",
    { status: "pending", attempting: true, availableIn: hour, createdAgo: hour, attempt: begun },
    "pending"
  ],
  [
    "pending, and its lease has ended",
    { status: "pending", attempting: true, availableIn: -1, createdAgo: hour, attempt: begun },
    "unknown"
  ],
  [
    "retrying, and due in a while",
    { status: "retrying", availableIn: hour, attempt: ended("retrying", new Date(0).toISOString()) },
    "retrying"
  ],
  [
    "retrying, and due",
    { status: "retrying", availableIn: -hour, attempt: ended("retrying", new Date(0).toISOString()) },
    "retrying"
  ],
  [
    "retrying, and being retried",
    { status: "retrying", attempting: true, availableIn: hour, attempt: begun },
    "retrying"
  ],
  ["unknown, and to be repeated", { status: "unknown", availableIn: hour, attempt: ended("unknown") }, "unknown"],
  ["unknown, and due", { status: "unknown", availableIn: -hour, attempt: ended("unknown") }, "unknown"],
  [
    "unknown, and being repeated",
    { status: "unknown", attempting: true, availableIn: hour, attempt: begun },
    "unknown"
  ],
  ["unknown, for an operator to settle", { status: "unknown", attempt: ended("unknown") }, "unknown"],
  ["sent", { status: "sent" }, "sent"],
  ["failed", { status: "failed", attempt: ended("rejected") }, "refused"]
]

// A server in the role `api` repeats no message, so the state stays unchanged.
layer(TestServer.layer({}, "api"), { excludeTestServices: true })("a replay of a send", (it) => {
  for (const [what, left, kind] of states) {
    it.effect(`of a message that is ${what} answers ${kind} without a call or a change`, function* () {
      const { ask, leave, provider, rows, send } = yield* open(yield* TestServer)
      for (const to of ["http", "telegram"] as const) {
        const key = newKey()
        const { messageId } = messageReceiptOf(yield* send(to, key))
        yield* leave(messageId, left)
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
