/** Retries of waiting messages: each attempt at its time, as a provider receives it (contract §8). */
import { assert, describe, it, layer } from "../support/Vitest.ts"
import { Clock, Effect, Schema } from "effect"
import { TestClock } from "effect/testing"
import { Webhook } from "standardwebhooks"
import { byFailure } from "../../src/messaging/providers/Outcomes.ts"
import { outcomes } from "../../src/messaging/providers/Providers.ts"
import { resultOf } from "../../src/messaging/RetrySchedule.ts"
import {
  conversations,
  type MessageRow,
  open,
  reset,
  script,
  signingSecret,
  taken,
  text
} from "../contract/Messages.support.ts"
import { newKey } from "../contract/Requests.ts"
import { type Answering, hang, status } from "../integrations/deliveries/Deliveries.support.ts"
import { messageReceiptOf, refusedOf, sendOf } from "../support/MessagingAnswers.ts"
import { startServer, TestServer } from "../support/TestServer.ts"
import { until, untilRows } from "../support/Waiting.ts"
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

  it.effect("is attempted five times with the same key and bytes, and then has failed", function* () {
    const { calls, provider, row, send, untilCalled } = yield* start(status(503))
    const key = newKey()
    const { messageId } = messageReceiptOf(yield* send("http", key))
    for (const [index, delay] of [1_000, 5_000, 30_000, 120_000].entries()) {
      const { availableAt, log } = yield* row(messageId)
      const due = Date.parse(String(log.at(-1)?.finishedAt)) + delay
      assert.strictEqual(availableAt?.getTime(), due)
      // Just before its time, a replay causes no attempt.
      yield* TestClock.adjust(due - (yield* Clock.currentTimeMillis) - 1)
      const receipt = messageReceiptOf(yield* send("http", key))
      assert.deepInclude(receipt, { deliveryStatus: "retrying", messageId, replayed: true, attempts: log })
      assert.strictEqual(calls(), index + 1)
      yield* untilCalled(messageId, index + 2)
    }
    assert.deepInclude(yield* row(messageId), { status: "failed", attempts: 5, availableAt: null })
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

/** Postpones each message once, and then answers its further attempts with `answer`. */
const afterwards = (answer: Answering): Answering => {
  const known = new Set<string>()
  return (hit, n) => {
    const key = String(hit.headers["idempotency-key"])
    if (known.has(key)) return answer(hit, n)
    known.add(key)
    return status(503)(hit, n)
  }
}

it.live(
  "a message that waits is attempted while a hundred of another project wait for a provider that hangs",
  function* () {
    // No call to the hanging provider ends during the test.
    const server = yield* startServer({ PROVIDER_TIMEOUT: "10m" })
    const stuck = yield* open(server, afterwards(hang))
    const healthy = yield* open(server, afterwards(taken))
    const send = ({ ask }: typeof stuck, count: number) =>
      Effect.forEach(Array.from({ length: count }), () => ask(conversations.http, { text }), {
        concurrency: 20,
        discard: true
      })
    yield* send(stuck, 100)
    yield* until(() => stuck.provider.hits.length > 100)
    yield* send(healthy, 40)
    yield* untilRows(healthy.rows, (rows) => rows.every(({ status }) => status === "sent"))
    assert.strictEqual(healthy.provider.hits.length, 80)
    // The hanging channel uses no more than its permits.
    assert.isAtMost(stuck.provider.hits.length, 100 + 16)
  }
)

/** Number of attempts of a message (contract §8). */
const maxAttempts = 5
const last = { number: maxAttempts, inDoubt: false, providerType: "telegram" } as const

describe("the last attempt", () => {
  for (const outcome of [outcomes.circuitOpen, outcomes.notCalled, byFailure("config_unreadable")]) {
    it(`of a campaign's message is repeated if the provider was not called: ${JSON.stringify(outcome)}`, () => {
      for (const number of [maxAttempts, maxAttempts + 3]) {
        const { delayMillis, on } = resultOf({ ...last, number, campaignId: "cmp" }, outcome)
        assert.deepStrictEqual([on, delayMillis], ["postponed", 120_000])
      }
      assert.strictEqual(resultOf({ ...last, campaignId: null }, outcome).on, "exhausted")
    })
  }

  it("of a campaign's message ends it if the provider has answered that it is busy", () => {
    const busy = { ...outcomes.circuitOpen, errorCode: "http_503" }
    assert.strictEqual(resultOf({ ...last, campaignId: "cmp" }, busy).on, "exhausted")
  })
})
