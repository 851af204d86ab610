/** Retries of waiting messages: each attempt at its time, as a provider receives it (contract §8). */
import { assert, layer } from "../support/Vitest.ts"
import { Clock, Effect, Schema } from "effect"
import { TestClock } from "effect/testing"
import { Webhook } from "standardwebhooks"
import { type MessageRow, open, reset, script, signingSecret, taken } from "../contract/Messages.support.ts"
import { newKey } from "../contract/Requests.ts"
import { type Answering, status } from "../integrations/deliveries/Deliveries.support.ts"
import { messageReceiptOf, refusedOf, sendOf } from "../support/MessagingAnswers.ts"
import { startServer, TestServer } from "../support/TestServer.ts"
import { untilLater } from "./Messages.support.ts"

const isUnderWay = ({ attempting }: MessageRow) => attempting

/** Opens a project whose messages get these answers in order, under a test clock. */
const start = Effect.fnUntraced(function* (...answers: readonly [Answering, ...ReadonlyArray<Answering>]) {
  const project = yield* open(yield* TestServer, script(...answers))
  const { provider, row } = project
  return {
    ...project,
    /** Advances the clock until a message is in a state and no call is in flight. */
    untilIs: (id: string | null, state: string) =>
      untilLater(row(id), ({ attempting, status }) => status === state && !attempting, isUnderWay),
    /** Advances the clock until this many calls were made and recorded. */
    untilCalled: (id: string | null, times: number) =>
      untilLater(row(id), ({ attempting, attempts }) => attempts === times && !attempting, isUnderWay),
    calls: () => provider.hits.length
  }
})

/** Sends a message and waits for its second attempt; by then, everything that was due before has been attempted, too. */
const sentinel = Effect.fnUntraced(function* () {
  const { send, untilIs } = yield* start(status(503), taken)
  const { messageId } = messageReceiptOf(yield* send("http"))
  yield* TestClock.adjust("1 seconds")
  yield* untilIs(messageId, "sent")
})

const strings = Schema.decodeUnknownSync(Schema.Record(Schema.String, Schema.String))

layer(TestServer.layer())("a message that waits", (it) => {
  it.effect("keeps to its schedule while the circuit of its channel is open, without a call", function* () {
    const busy = status(503)
    const answers = [busy, busy, busy, busy, busy, reset, reset, reset, reset, reset, busy, reset] as const
    const { calls, row, rows, send, untilCalled } = yield* start(...answers)
    for (let n = 0; n < 5; n++) yield* send("http")
    // Five calls in a row without an answer open the circuit for 5 s.
    yield* TestClock.adjust("1 seconds")
    for (const { id } of yield* rows) yield* untilCalled(id, 2)
    const { messageId } = messageReceiptOf(yield* send("http"))
    assert.strictEqual(calls(), 11)
    yield* TestClock.adjust("1 seconds")
    yield* untilCalled(messageId, 2)
    assert.deepInclude((yield* row(messageId)).log.at(-1), { status: "retrying", errorCode: "circuit_open" })
    assert.strictEqual(calls(), 11)
  })

  it.effect("is attempted five times, after 1 s, 5 s, 30 s and 2 min, and then has failed", function* () {
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
      // Just before its time there is no attempt, and a replay causes none.
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
    // Each attempt has the message's key and the same bytes, and is signed at its own time.
    assert.strictEqual(new Set(provider.hits.map(({ body }) => body)).size, 1)
    for (const { body, headers } of provider.hits) {
      assert.deepStrictEqual([headers["idempotency-key"], headers["webhook-id"]], [messageId, messageId])
      // By the test clock: the signature is valid although its time is long ago.
      const id = String(headers["webhook-id"])
      const seconds = Number(headers["webhook-timestamp"])
      const signature = new Webhook(signingSecret).sign(id, new Date(seconds * 1000), body)
      assert.strictEqual(strings(headers)["webhook-signature"], signature)
    }
    assert.strictEqual(new Set(provider.hits.map(({ headers }) => headers["webhook-timestamp"])).size, 5)
    yield* sentinel()
    assert.strictEqual(calls(), 5)
  })

  it.effect(
    "is put off while its channel's config can't be read, whether or not an attempt may have been processed",
    function* () {
      for (const first of [reset, status(503)]) {
        const { calls, projectId, row, rows, send, server, untilCalled } = yield* start(first, taken)
        const key = newKey()
        yield* send("http", key)
        const [{ id: messageId } = assert.fail("no message")] = yield* rows
        // As if SECRET_KEY had been changed.
        yield* server.sql`UPDATE channels SET config = '\\x00' WHERE project_id = ${projectId} AND id = 'http'`
        yield* TestClock.adjust("1 seconds")
        yield* untilCalled(messageId, 2)
        assert.strictEqual((yield* row(messageId)).status, "retrying")
        assert.deepInclude(sendOf(yield* send("http", key)), { messageId, kind: "retrying" })
        assert.strictEqual(calls(), 1)
      }
    }
  )
})

layer(TestServer.layer({}, "api"))("a message that waits in a process without background work", (it) => {
  it.effect("waits for one that does", function* () {
    const { calls, row, send, server, untilIs } = yield* start(status(503), taken)
    const { messageId } = messageReceiptOf(yield* send("http"))
    yield* TestClock.adjust("10 seconds")
    yield* TestClock.withLive(Effect.sleep("200 millis"))
    assert.deepInclude(yield* row(messageId), { status: "retrying", attempts: 1 })
    yield* startServer({ DATABASE_URL: server.databaseUrl }, "worker")
    yield* untilIs(messageId, "sent")
    assert.strictEqual(calls(), 2)
  })
})
