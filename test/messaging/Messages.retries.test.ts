/** What becomes of messages that wait: each attempt at its time, and what ends the waiting (contract §8). */
import { assert, layer } from "@effect/vitest"
import { Clock, Effect, Schema } from "effect"
import { TestClock } from "effect/testing"
import { Webhook } from "standardwebhooks"
import { httpChannel, reset, signingSecret, taken } from "../contract/Messages.support.ts"
import { newKey } from "../contract/Requests.ts"
import { type Answering, status } from "../integrations/Deliveries.support.ts"
import { messageReceiptOf, refusedOf, sendOf, unknownOf } from "../support/MessagingAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { sentinel, start } from "./Messages.retries.support.ts"
import { untilLater } from "./Messages.support.ts"

const strings = Schema.decodeUnknownSync(Schema.Record(Schema.String, Schema.String))

layer(TestServer.layer())("a message that waits", (it) => {
  it.effect("is attempted five times, after 1 s, 5 s, 30 s and 2 min, and then has failed", () =>
    Effect.gen(function* () {
      const { calls, provider, row, send, untilCalled } = yield* start(status(503))
      const key = newKey()
      const first = messageReceiptOf(yield* send("http", key))
      const { messageId } = first
      for (const [index, delay] of [1_000, 5_000, 30_000, 120_000].entries()) {
        const { availableAt, log } = yield* row(messageId)
        const last = log.at(-1)
        const due = Date.parse(String(last?.finishedAt)) + delay
        assert.strictEqual(last?.nextAttemptAt, new Date(due).toISOString())
        assert.strictEqual(availableAt?.getTime(), due)
        // A little before its time nothing happens, nor does a replay bring it about.
        yield* TestClock.adjust(due - (yield* Clock.currentTimeMillis) - 1)
        yield* TestClock.withLive(Effect.sleep("50 millis"))
        const receipt = messageReceiptOf(yield* send("http", key))
        assert.deepInclude(receipt, { deliveryStatus: "retrying", messageId, replayed: true, attempts: log })
        assert.strictEqual(calls(), index + 1)
        yield* untilCalled(messageId, index + 2)
        assert.strictEqual(calls(), index + 2)
        const started = Date.parse(String((yield* row(messageId)).log.at(-1)?.startedAt))
        assert.isTrue(started >= due, `${started} ${due}`)
      }
      const { log, ...kept } = yield* row(messageId)
      assert.deepStrictEqual(kept, { status: "failed", attempts: 5, attempting: false, availableAt: null })
      assert.deepStrictEqual(
        log.map(({ number, status }) => [number, status]),
        [1, 2, 3, 4, 5].map((number) => [number, number < 5 ? "retrying" : "rejected"])
      )
      assert.isNull(log[4]?.nextAttemptAt)
      assert.deepInclude(refusedOf(yield* send("http", key)), { messageId, replayed: true })
      // Each under the message's own key, with the same bytes, signed at its own time.
      assert.strictEqual(new Set(provider.hits.map(({ body }) => body)).size, 1)
      for (const { body, headers } of provider.hits) {
        assert.deepStrictEqual([headers["idempotency-key"], headers["webhook-id"]], [messageId, messageId])
        // By the clock of the test: what the signature covers is right, be its time long ago.
        const id = String(headers["webhook-id"])
        const seconds = Number(headers["webhook-timestamp"])
        const signature = new Webhook(signingSecret).sign(id, new Date(seconds * 1000), body)
        assert.strictEqual(strings(headers)["webhook-signature"], signature)
      }
      assert.strictEqual(new Set(provider.hits.map(({ headers }) => headers["webhook-timestamp"])).size, 5)
      yield* TestClock.adjust("1 hour")
      yield* sentinel()
      assert.strictEqual(calls(), 5)
    })
  )

  it.effect("waits for the longer of its provider's delay and the backoff", () =>
    Effect.gen(function* () {
      for (const [retryAfter, delays] of [
        ["20", [20_000, 20_000, 30_000, 120_000]],
        ["600", [600_000, 600_000, 600_000, 600_000]]
      ] as const) {
        const { row, send, untilCalled } = yield* start(status(429, { "retry-after": retryAfter }))
        const { messageId } = messageReceiptOf(yield* send("http"))
        for (const [index, delay] of delays.entries()) {
          const last = (yield* row(messageId)).log.at(-1)
          assert.strictEqual(Date.parse(String(last?.nextAttemptAt)) - Date.parse(String(last?.finishedAt)), delay)
          yield* TestClock.adjust(delay)
          yield* untilCalled(messageId, index + 2)
        }
        assert.strictEqual((yield* row(messageId)).status, "failed")
      }
    })
  )

  it.effect("with an unknown outcome is repeated when that has no second effect, and gets its outcome", () =>
    Effect.gen(function* () {
      const { calls, provider, send, untilCalled } = yield* start(reset, status(500), taken)
      const key = newKey()
      const { messageId } = unknownOf(yield* send("http", key))
      yield* TestClock.adjust("1 seconds")
      yield* untilCalled(messageId, 2)
      assert.deepInclude(unknownOf(yield* send("http", key)), { messageId, replayed: true })
      yield* TestClock.adjust("5 seconds")
      yield* untilCalled(messageId, 3)
      const receipt = messageReceiptOf(yield* send("http", key))
      assert.strictEqual(receipt.messageId, messageId)
      assert.deepInclude(receipt, { deliveryStatus: "sent", replayed: true })
      assert.deepStrictEqual(
        receipt.attempts.map(({ providerMessageId, status }) => [status, providerMessageId]),
        [
          ["unknown", null],
          ["unknown", null],
          ["accepted", "p-8002"]
        ]
      )
      for (const { headers } of provider.hits) assert.strictEqual(headers["idempotency-key"], messageId)
      assert.strictEqual(calls(), 3)
    })
  )

  it.effect("with an unknown outcome is never repeated when that could send it twice", () =>
    Effect.gen(function* () {
      // Be it the first attempt, or one that followed where the message was surely not processed.
      const scripts: ReadonlyArray<readonly [Answering, ...ReadonlyArray<Answering>]> = [
        [reset],
        [status(429), status(500)]
      ]
      for (const answers of scripts) {
        const { calls, row, rows, send, untilIs } = yield* start(...answers)
        const key = newKey()
        yield* send("telegram", key)
        const [{ id: messageId } = assert.fail("no message")] = yield* rows
        yield* TestClock.adjust("1 seconds")
        yield* untilIs(messageId, "unknown")
        for (const later of ["1 seconds", "5 seconds", "30 seconds", "2 minutes", "40 minutes"] as const) {
          yield* TestClock.adjust(later)
          yield* sentinel()
        }
        assert.deepInclude(yield* row(messageId), { attempts: answers.length, availableAt: null })
        assert.deepInclude(unknownOf(yield* send("telegram", key)), { messageId, replayed: true })
        assert.strictEqual(calls(), answers.length)
      }
    })
  )

  it.effect("is unknown after its last attempt when one of them may have been processed", () =>
    Effect.gen(function* () {
      for (const first of [reset, status(500)]) {
        const { row, send, untilCalled } = yield* start(first, status(503))
        const key = newKey()
        const { messageId } = unknownOf(yield* send("http", key))
        for (const [index, delay] of [1_000, 5_000, 30_000, 120_000].entries()) {
          yield* TestClock.adjust(delay)
          yield* untilCalled(messageId, index + 2)
        }
        assert.deepInclude(yield* row(messageId), { status: "unknown", attempts: 5, availableAt: null })
        assert.deepInclude(unknownOf(yield* send("http", key)), { messageId, replayed: true })
      }
    })
  )

  it.effect(
    "is put off while its channel's config can't be read, whether or not an attempt may have been processed",
    () =>
      Effect.gen(function* () {
        for (const first of [reset, status(503)]) {
          const { calls, projectId, row, rows, send, server, untilCalled } = yield* start(first, taken)
          const key = newKey()
          yield* send("http", key)
          const [{ id: messageId } = assert.fail("no message")] = yield* rows
          // As if SECRET_KEY were another one.
          yield* server.sql`UPDATE channels SET config = '\\x00' WHERE project_id = ${projectId} AND id = 'http'`
          yield* TestClock.adjust("1 seconds")
          yield* untilCalled(messageId, 2)
          assert.strictEqual((yield* row(messageId)).status, "retrying")
          assert.deepInclude(sendOf(yield* send("http", key)), { messageId, kind: "retrying" })
          assert.strictEqual(calls(), 1)
        }
      })
  )

  it.effect("has failed when its provider refuses it", () =>
    Effect.gen(function* () {
      for (const to of ["http", "telegram"] as const) {
        const { calls, send, untilIs } = yield* start(status(503), status(403))
        const key = newKey()
        const { messageId } = messageReceiptOf(yield* send(to, key))
        yield* TestClock.adjust("1 seconds")
        yield* untilIs(messageId, "failed")
        assert.deepInclude(refusedOf(yield* send(to, key)), { messageId, replayed: true })
        assert.strictEqual(calls(), 2)
      }
    })
  )

  it.effect("is not sent once its channel is revoked or has another provider", () =>
    Effect.gen(function* () {
      const elsewhere = yield* start(taken)
      for (const [first, state] of [
        [status(503), "failed"],
        [reset, "unknown"]
      ] as const) {
        for (const channel of [
          { ...httpChannel("http", "http://127.0.0.1:9/"), status: "revoked" },
          {
            id: "http",
            providerType: "telegram",
            displayName: "T",
            config: { apiBaseUrl: `http://127.0.0.1:${elsewhere.provider.port}`, token: "1:a" }
          }
        ] as const) {
          const { apply, calls, row, rows, send } = yield* start(first, taken)
          const key = newKey()
          yield* send("http", key)
          const [{ id: messageId } = assert.fail("no message")] = yield* rows
          yield* apply({ channels: [channel] })
          yield* TestClock.adjust("1 seconds")
          yield* untilLater(row(messageId), ({ availableAt }) => availableAt === null)
          assert.deepInclude(yield* row(messageId), { status: state, attempts: 1, attempting: false })
          const told = state === "failed" ? refusedOf(yield* send("http", key)) : unknownOf(yield* send("http", key))
          assert.deepInclude(told, { messageId, replayed: true })
          assert.strictEqual(calls(), 1)
        }
      }
      assert.strictEqual(elsewhere.calls(), 0)
    })
  )

  it.effect("is unknown after its process died and its lease ended", () =>
    Effect.gen(function* () {
      for (const to of ["http", "telegram"] as const) {
        const { calls, leave, row, send, untilIs } = yield* start(taken)
        const key = newKey()
        const { messageId } = messageReceiptOf(yield* send(to, key))
        const now = yield* Clock.currentTimeMillis
        const attempt = { status: "pending", finishedAt: null, providerMessageId: null }
        yield* leave(
          messageId,
          { status: "pending", attempting: true, availableIn: 60_000, createdAgo: 60_000, attempt },
          now
        )
        yield* TestClock.adjust("50 seconds")
        yield* sentinel()
        assert.isBelow(yield* Clock.currentTimeMillis, now + 60_000)
        assert.deepInclude(yield* row(messageId), { status: "pending", attempts: 1 })
        // No further: what is found within it is due again a second later.
        yield* TestClock.setTime(now + 60_000)
        yield* untilIs(messageId, "unknown")
        const { availableAt, log } = yield* row(messageId)
        const [lost = assert.fail("no attempt"), ...more] = log
        assert.deepStrictEqual(more, [])
        assert.deepInclude(lost, { number: 1, status: "unknown", providerMessageId: null })
        assert.isString(lost.errorCode)
        assert.isAtLeast(Date.parse(String(lost.finishedAt)), now + 60_000)
        assert.deepInclude(unknownOf(yield* send(to, key)), { messageId, replayed: true })
        assert.strictEqual(calls(), 1)
        if (to === "telegram") {
          assert.isNull(availableAt)
          continue
        }
        assert.strictEqual(availableAt?.getTime(), Date.parse(String(lost.finishedAt)) + 1_000)
        yield* TestClock.adjust("1 seconds")
        yield* untilIs(messageId, "sent")
        assert.strictEqual(calls(), 2)
        assert.deepInclude(messageReceiptOf(yield* send(to, key)), { deliveryStatus: "sent", replayed: true })
      }
    })
  )
})
