/** The answer to a send for each answer of its provider, and the request that the provider gets (contract §1, §8; specification 4.2). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect, Struct } from "effect"
import { type Answering, status } from "../webhooks/delivery/Deliveries.support.ts"
import { messageReceiptOf, refusedOf, sendOf, unknownOf } from "../support/MessagingAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { newKey } from "./Requests.ts"
import {
  type Conversation,
  conversations,
  json,
  open,
  placesIn,
  reset,
  sentBodyOf,
  taken,
  text
} from "./Messages.support.ts"
import { problemOf } from "../support/ContractAnswers.ts"

const errorIn200 = (errorCode: number, parameters: object = {}): Answering =>
  json(200, { ok: false, error_code: errorCode, description: "Told so", parameters })

// Answers of each kind; `messaging/providers` tests the kind of every answer.

/** Answers, the state in which each leaves a message, and the delay of its next attempt in milliseconds. */
const answers: ReadonlyArray<
  readonly [to: Conversation, what: string, Answering, left: keyof typeof states, delay: number | null]
> = [
  ["http", "429", status(429), "retrying", 1_000],
  ["http", "503 with Retry-After", status(503, { "retry-after": "600" }), "retrying", 600_000],
  ["http", "a Retry-After shorter than the backoff", status(503, { "retry-after": "0" }), "retrying", 1_000],
  ["nobody", "nobody listening", taken, "retrying", 1_000],
  ["telegram", "429 with retry_after", errorIn200(429, { retry_after: 7 }), "retrying", 7_000],
  ["http", "422", status(422), "failed", null],
  ["telegram", "ok: false with 403 under 200", errorIn200(403), "failed", null],
  // Repeated only where a repetition has no second effect.
  ["http", "500", status(500), "unknown", 1_000],
  ["http", "a reset", reset, "unknown", 1_000],
  ["telegram", "ok: false with 502 under 200", errorIn200(502), "unknown", null],
  ["telegram", "a reset", reset, "unknown", null]
]

/** The kind of the answer to the send, and the status of the attempt, by the state of the message. */
const states = {
  retrying: { kind: "retrying", attempt: "retrying" },
  failed: { kind: "refused", attempt: "rejected" },
  unknown: { kind: "unknown", attempt: "unknown" }
} as const

/** Texts that could be cut, trimmed, escaped or parsed by mistake. */
const texts = [
  "x",
  " ",
  "\n",
  "  two\r\nlines\t ",
  "😀".repeat(4096),
  "é".repeat(4096),
  "e\u0301".repeat(2048),
  "\u2028\u2029\u200b\ufeff",
  "\u202eright to left",
  "<b>&amp;</b> *_`[",
  '{"text":"no"}',
  "\\ \\u0041 \" '",
  "\u0001\u001f\u007f\u0080\u009f",
  "👩‍👩‍👧‍👦🇩🇪",
  "null"
]

// A server in the role `api` repeats no message, so a message stays as the send left it.
layer(TestServer.layer({}, "api"), { excludeTestServices: true })("a send of a message", (it) => {
  it.effect.each(["http", "telegram", "sandbox"] as const)("that %s accepts is sent, with an exact receipt", (to) =>
    Effect.gen(function* () {
      const { provider, row, send, source } = yield* open(yield* TestServer)
      const before = new Date().toISOString()
      const answer = yield* send(to)
      const after = new Date().toISOString()
      const receipt = messageReceiptOf(answer)
      const { attempts, createdAt, messageId, updatedAt } = receipt
      const [attempt = assert.fail("no attempt"), ...more] = attempts
      assert.deepStrictEqual(receipt, {
        messageId,
        conversationId: conversations[to],
        sourceId: (yield* source(conversations[to])).source.id,
        deliveryStatus: "sent",
        createdAt,
        updatedAt,
        attempts: [
          {
            number: 1,
            status: "accepted",
            startedAt: attempt.startedAt,
            finishedAt: updatedAt,
            providerMessageId: { http: "p-8000", telegram: "8000", sandbox: attempt.providerMessageId }[to],
            errorCode: null,
            nextAttemptAt: null
          }
        ],
        replayed: false
      })
      assert.deepStrictEqual(more, [])
      assert.match(messageId, /^msg_/)
      assert.isTrue(before <= createdAt && createdAt <= attempt.startedAt && attempt.startedAt <= updatedAt)
      assert.isTrue(updatedAt <= after)
      assert.strictEqual(provider.hits.length, to === "sandbox" ? 0 : 1)
      assert.deepInclude(yield* row(messageId), { status: "sent", attempts: 1, attempting: false, availableAt: null })
      // The members are in the order of contract §8.
      const members = [
        ["messageId", "conversationId", "sourceId", "deliveryStatus", "createdAt", "updatedAt", "attempts"],
        ["number", "status", "startedAt", "finishedAt", "providerMessageId", "errorCode", "nextAttemptAt"]
      ]
      const { replayed: _, ...message } = receipt
      assert.deepStrictEqual([Object.keys(message), Object.keys(attempt)], members)
    })
  )

  for (const [to, what, answering, left, delay] of answers) {
    it.effect(`to ${to} that gets ${what} leaves the message ${left}`, function* () {
      const { provider, row, send } = yield* open(yield* TestServer, answering)
      const answer = yield* send(to)
      const { kind, messageId, replayed } = sendOf(answer)
      assert.deepStrictEqual([kind, replayed], [states[left].kind, false])
      const { log, ...kept } = yield* row(messageId)
      const [attempt = assert.fail("no attempt"), ...more] = log
      assert.deepStrictEqual(more, [])
      const next = delay === null ? null : new Date(Date.parse(String(attempt.finishedAt)) + delay)
      assert.deepStrictEqual(kept, { status: left, attempts: 1, attempting: false, availableAt: next })
      const nextAttemptAt = next?.toISOString() ?? null
      assert.deepInclude(attempt, { number: 1, status: states[left].attempt, providerMessageId: null, nextAttemptAt })
      assert.isString(attempt.errorCode)
      assert.strictEqual(provider.hits.length, to === "nobody" ? 0 : 1)
      if (answer.status === 200) {
        assert.deepInclude(messageReceiptOf(answer), { attempts: log, updatedAt: String(attempt.finishedAt) })
      }
    })
  }

  it.effect("over a revoked channel answers provider_conflict without a call", function* () {
    const { apply, provider, row, send } = yield* open(yield* TestServer)
    const key = newKey()
    const first = refusedOf(yield* send("revoked", key))
    assert.isFalse(first.replayed)
    assert.deepInclude(yield* row(first.messageId), { status: "failed", attempting: false, availableAt: null })
    // One channel is revoked from now on, another is active again.
    yield* apply({
      channels: [
        { id: "sandbox", providerType: "sandbox", displayName: "S", status: "revoked" },
        { id: "revoked", providerType: "http", displayName: "R", status: "active" }
      ]
    })
    refusedOf(yield* send("sandbox"))
    assert.strictEqual(provider.hits.length, 0)
    assert.strictEqual(messageReceiptOf(yield* send("revoked")).deliveryStatus, "sent")
    assert.strictEqual(provider.hits.length, 1)
    assert.deepStrictEqual(refusedOf(yield* send("revoked", key)), { ...first, replayed: true })
    assert.strictEqual(provider.hits.length, 1)
  })

  it.effect("gives its provider the text unchanged", function* () {
    const { ask, provider } = yield* open(yield* TestServer)
    for (const to of ["http", "telegram"] as const) {
      for (const each of texts) {
        messageReceiptOf(yield* ask(conversations[to], { text: each }))
        const hit = provider.hits.at(-1) ?? assert.fail("nothing came")
        assert.strictEqual(sentBodyOf(hit).text, each)
      }
    }
    assert.strictEqual(provider.hits.length, 2 * texts.length)
  })

  it.effect("uses the conversation's current address", function* () {
    const { apply, provider, send } = yield* open(yield* TestServer)
    yield* apply({ conversations: [{ id: conversations.http, channelId: "http", address: "somewhere else" }] })
    messageReceiptOf(yield* send("http"))
    yield* apply({ conversations: [{ id: conversations.http, channelId: "telegram", address: "4711" }] })
    messageReceiptOf(yield* send("http"))
    const [first, second] = provider.hits.map(sentBodyOf)
    assert.deepInclude(first, { recipient: "somewhere else" })
    assert.deepStrictEqual(second, { chat_id: "4711", text })
  })
})

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
