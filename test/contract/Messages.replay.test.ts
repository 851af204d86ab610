/** A repeated key of a send calls no provider: it returns the state of the message (contract §5, §8). */
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { problemOf } from "../support/ContractAnswers.ts"
import { messageReceiptOf, refusedOf, sendOf, unknownOf } from "../support/MessagingAnswers.ts"
import { startServer, TestServer } from "../support/TestServer.ts"
import { newKey } from "./Requests.ts"
import { callsOf, conversations, held, json, type Left, open, reset, taken, text } from "./Messages.support.ts"
import { status } from "../integrations/deliveries/Deliveries.support.ts"
import { until } from "../support/Waiting.ts"

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
    it.effect(`of a message that is ${what} answers ${kind} without a call or a change`, () =>
      Effect.gen(function* () {
        const { leave, provider, rows, send } = yield* open(yield* TestServer)
        for (const to of ["http", "telegram"] as const) {
          const key = newKey()
          const { messageId } = messageReceiptOf(yield* send(to, key))
          yield* leave(messageId, left)
          const [before, calls] = [yield* rows, provider.hits.length]
          const answers = [yield* send(to, key), yield* send(to, key)]
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
    )
  }

  it.effect("has a Retry-After no earlier than the next attempt", () =>
    Effect.gen(function* () {
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
  )

  it.effect.each([
    ["accepted", taken],
    ["refused", status(422)],
    ["postponed", status(429, { "retry-after": "600" })],
    ["unknown", reset]
  ] as const)(
    "answers as the first that was %s, with any token of the project and letter case of the UUID",
    ([, answering]) =>
      Effect.gen(function* () {
        const server = yield* TestServer
        const { ask, projectId, provider, seeded, send } = yield* open(server, answering)
        const other = callsOf(server, { ...seeded, token: yield* server.issue(projectId) })
        for (const to of ["http", "telegram"] as const) {
          const key = newKey()
          const first = yield* send(to, key)
          const outcome = sendOf(first)
          assert.isFalse(outcome.replayed)
          const calls = provider.hits.length
          for (const again of [
            yield* send(to, key),
            yield* ask(conversations[to].toUpperCase(), { text }, key),
            yield* other.send(to, key)
          ]) {
            assert.deepStrictEqual(sendOf(again), { ...outcome, replayed: true })
            if (first.status === 200) assert.strictEqual(again.text, first.text)
          }
          assert.strictEqual(provider.hits.length, calls)
        }
      })
  )

  it.effect("does not exist for a send that was refused before a message was made", () =>
    Effect.gen(function* () {
      const { ask, projectId, provider, rows, send } = yield* open(yield* TestServer)
      const key = newKey()
      problemOf(yield* ask(conversations.http, { text: "" }, key), 400, "validation_failed")
      problemOf(yield* ask(conversations.http, { text, expectedProjectId: "other" }, key), 400, "project_mismatch")
      problemOf(yield* ask("0193f0cb-d4e5-4f70-8192-0000000000ff", { text }, key), 404, "conversation_not_found")
      assert.deepStrictEqual(yield* rows, [])
      assert.strictEqual(provider.hits.length, 0)
      const { messageId, replayed } = messageReceiptOf(yield* send("http", key))
      assert.isFalse(replayed)
      // A different text is another request, even with the same meaning.
      for (const [id, body] of [
        [conversations.http, { text: `${text} ` }],
        [conversations.telegram, { text }],
        [conversations.revoked, { text }],
        [conversations.http, { text, expectedProjectId: projectId }],
        ["0193f0cb-d4e5-4f70-8192-0000000000ff", { text }]
      ] as const) {
        problemOf(yield* ask(id, body, key), 409, "idempotency_key_reused")
      }
      assert.deepInclude(messageReceiptOf(yield* send("http", key)), { messageId, replayed: true })
      assert.strictEqual(provider.hits.length, 1)
    })
  )

  it.effect("of a refused message refuses its key to another text", () =>
    Effect.gen(function* () {
      const { ask, provider, send } = yield* open(yield* TestServer, status(400))
      for (const to of ["http", "revoked"] as const) {
        const key = newKey()
        const { messageId } = refusedOf(yield* send(to, key))
        problemOf(yield* ask(conversations[to], { text: "Other" }, key), 409, "idempotency_key_reused")
        assert.strictEqual(refusedOf(yield* send(to, key)).messageId, messageId)
      }
      assert.strictEqual(provider.hits.length, 1)
    })
  )

  it.effect("waits for the call of another process and gives the same answer", () =>
    Effect.gen(function* () {
      const server = yield* TestServer
      const replica = yield* startServer({ DATABASE_URL: server.databaseUrl, PROVIDER_TIMEOUT: "1h" }, "api")
      const caller = yield* startServer({ DATABASE_URL: server.databaseUrl, PROVIDER_TIMEOUT: "1h" }, "api")
      for (const answering of [taken, json(403, {}), reset, status(503, { "retry-after": "600" })]) {
        const provider = held(answering)
        const project = yield* open(server, provider.answering)
        const key = newKey()
        const first = yield* Effect.forkChild(callsOf(caller, project.seeded).send("telegram", key))
        yield* until(() => project.provider.hits.length === 1)
        const others = [replica, caller].map((server) => callsOf(server, project.seeded).send("telegram", key))
        const waiting = yield* Effect.forEach(others, (other) => Effect.forkChild(other))
        // Enough time for an answer that would be too early.
        yield* Effect.sleep("300 millis")
        for (const fiber of waiting) assert.isUndefined(fiber.pollUnsafe())
        provider.letGo()
        const { replayed, ...outcome } = sendOf(yield* Fiber.join(first))
        assert.isFalse(replayed)
        for (const fiber of waiting)
          assert.deepStrictEqual(sendOf(yield* Fiber.join(fiber)), { ...outcome, replayed: true })
        assert.strictEqual(project.provider.hits.length, 1)
      }
    })
  )
})
