/** Retries of waiting messages: each attempt at its time, as a provider receives it (contract §8). */
import { assert, describe, it, layer } from "../support/Vitest.ts"
import { Clock, Effect, Schema } from "effect"
import { TestClock } from "effect/testing"
import { Webhook } from "standardwebhooks"
import { byFailure } from "../../src/messaging/providers/Connector.ts"
import { outcomes } from "../../src/messaging/providers/Connectors.ts"
import { resultOf } from "../../src/messaging/Message.ts"
import {
  conversations,
  httpChannel,
  json,
  type MessageRow,
  open,
  placesIn,
  reset,
  script,
  signingSecret,
  taken,
  telegramChannel,
  text
} from "../contract/Messages.support.ts"
import { newKey } from "../contract/Requests.ts"
import { type Answering, hang, receiver, status } from "../webhooks/delivery/Deliveries.support.ts"
import { messageReceiptOf, refusedOf, sendOf } from "../support/MessagingAnswers.ts"
import { startServer, TestServer } from "../support/TestServer.ts"
import { until, untilRows } from "../support/Waiting.ts"
import { untilLater } from "./Later.support.ts"

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
  it.effect(
    "waits while the circuit of its channel is open, is sent once its provider is back, and changes nothing meanwhile",
    function* () {
      const provider = { isUp: false }
      const { calls, row, rows, send, server, untilIs } = yield* start((hit, n) =>
        provider.isUp ? taken(hit, n) : reset(hit, n)
      )
      for (let n = 0; n < 5; n++) yield* send("http")
      // Five calls in a row without an answer open the circuit, and each failed probe opens it for longer.
      yield* TestClock.adjust("10 seconds")
      yield* TestClock.withLive(Effect.sleep("200 millis"))
      const all = (yield* rows).map(({ id }) => id)
      const written = Effect.orDie(server.sql`SELECT xmin::text FROM messages ORDER BY id`)
      const inFlight = Effect.orDie(server.sql`SELECT FROM messages WHERE attempting`)
      for (let minutes = 0; minutes < 5; minutes++) {
        yield* TestClock.withLive(untilRows(inFlight, ({ length }) => length === 0))
        const [before, made] = [yield* written, calls()]
        yield* TestClock.adjust("1 seconds")
        yield* TestClock.withLive(Effect.sleep("50 millis"))
        const after = yield* written
        // A call that is about to be made has been written.
        const isQuiet = (yield* inFlight).length === 0 && calls() === made
        if (isQuiet) assert.deepStrictEqual(after, before)
        yield* TestClock.adjust("10 seconds")
      }
      provider.isUp = true
      for (const id of all) yield* untilIs(id, "sent")
      for (const id of all) assert.isAtMost((yield* row(id)).attempts, 5)
    }
  )

  it.effect(
    "has what its provider answered in the log of operators, and not in the receipt of its sender",
    function* () {
      const { row, send, server } = yield* start(
        json(503, { error: `busy \u0000 ${signingSecret} ${"x".repeat(300)}` })
      )
      const receipt = messageReceiptOf(yield* send("http"))
      assert.notInclude(JSON.stringify(receipt), "busy")
      const logs = yield* Effect.orDie(server.sql<{ reason: string }>`
      SELECT attempt_log -> -1 ->> 'reason' AS reason FROM messages WHERE id = ${receipt.messageId}`)
      const [{ reason } = assert.fail()] = logs
      assert.lengthOf(reason, 256)
      assert.match(reason, /^\{"error":"busy \\u0000 whsec_\[redacted\] x+$|^\{"error":"busy \\u0000 \[redacted\] x+$/)
      assert.strictEqual((yield* row(receipt.messageId)).status, "retrying")
    }
  )

  it.effect("is given up once it has waited for a day, whatever its channel admits", function* () {
    const { calls, leave, row, send, untilIs } = yield* start(status(503))
    const [old, doubtful] = [messageReceiptOf(yield* send("http")), messageReceiptOf(yield* send("http"))]
    const now = yield* Clock.currentTimeMillis
    const places = placesIn(-86_400_000)
    yield* leave(old.messageId, places["retrying, waiting"], now)
    yield* leave(doubtful.messageId, places["unknown, waiting"], now)
    yield* untilIs(old.messageId, "failed")
    yield* untilIs(doubtful.messageId, "unknown")
    for (const id of [old.messageId, doubtful.messageId]) {
      yield* untilLater(row(id), ({ availableAt }) => availableAt === null)
    }
    assert.strictEqual(calls(), 2)
  })

  it.effect("is repeated at another URL of its channel only if no attempt may have been processed", function* () {
    for (const [first, isRepeated] of [
      [status(503), true],
      [status(500), false]
    ] as const) {
      const { apply, row, rows, send } = yield* start(first)
      const other = yield* receiver(taken)
      yield* send("http")
      const [{ id } = assert.fail("no message")] = yield* rows
      yield* apply({ channels: [httpChannel("http", other.url)] })
      yield* untilLater(row(id), ({ attempting, availableAt }) => availableAt === null && !attempting)
      assert.strictEqual(other.hits.length, isRepeated ? 1 : 0)
      assert.strictEqual((yield* row(id)).status, isRepeated ? "sent" : "unknown")
    }
  })

  it.effect("stays unknown if a repeated attempt is refused after one that may have been processed", function* () {
    const { row, rows, send, untilCalled } = yield* start(status(500), status(403))
    yield* send("http")
    const [{ id } = assert.fail("no message")] = yield* rows
    yield* untilCalled(id, 2)
    const { availableAt, log, status: state } = yield* row(id)
    assert.deepStrictEqual(
      [state, availableAt, log.map(({ status }) => status)],
      ["unknown", null, ["unknown", "rejected"]]
    )
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

layer(TestServer.layer())("a message over one channel", (it) => {
  it.effect("waits for none of the thousands over another channel of its project", function* () {
    const { apply, calls, leave, projectId, row, send, server, untilIs } = yield* start(status(503), taken)
    const { messageId } = messageReceiptOf(yield* send("http"))
    const busy = messageReceiptOf(yield* send("telegram"))
    const now = yield* Clock.currentTimeMillis
    yield* Effect.orDie(server.sql`
      INSERT INTO messages SELECT (jsonb_populate_record(messages, jsonb_build_object('id', 'msg_' || n, 'status', 'retrying',
        'attempting', false, 'available_at', ${new Date(now - 60_000)}::timestamptz))).*
      FROM messages, generate_series(1, 5000) n WHERE project_id = ${projectId} AND id = ${busy.messageId}`)
    const made = calls()
    yield* leave(messageId, placesIn(0)["retrying, waiting"], now)
    yield* untilIs(messageId, "sent")
    assert.isBelow(calls() - made, 100)
    assert.strictEqual((yield* row(messageId)).attempts, 2)
    // The others end with their channel.
    yield* apply({ channels: [{ ...telegramChannel("telegram", "http://127.0.0.1:9"), status: "revoked" }] })
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
const day = 86_400_000

describe("the last attempt", () => {
  for (const outcome of [outcomes.circuitOpen, outcomes.notCalled, byFailure("config_unreadable")]) {
    it(`is repeated for a day if the provider was not called: ${JSON.stringify(outcome)}`, () => {
      for (const number of [maxAttempts, maxAttempts + 3]) {
        const { delayMillis, on } = resultOf({ ...last, number, ageMillis: day - 1 }, outcome)
        assert.deepStrictEqual([on, delayMillis], ["postponed", 120_000])
        assert.strictEqual(resultOf({ ...last, number, ageMillis: day }, outcome).on, "exhausted")
      }
    })
  }

  it("ends a message if the provider has answered that it is busy", () => {
    assert.strictEqual(resultOf(last, { ...outcomes.circuitOpen, errorCode: "http_503" }).on, "exhausted")
  })

  it("is followed by another one if an earlier one made no call", () => {
    const busy = { ...outcomes.circuitOpen, errorCode: "http_503" }
    assert.strictEqual(resultOf({ ...last, uncalled: 1 }, busy).on, "postponed")
  })
})
