/** Outcomes of calls with and without an answer (contract §8), and the delay that a busy provider requests. */
import { assert, describe, providing } from "../../support/Vitest.ts"
import { Duration, Effect, Fiber } from "effect"
import { type ChannelConfig, send as sendOver } from "../../../src/messaging/providers/Connectors.ts"
import type { CallOutcome } from "../../../src/messaging/providers/Connector.ts"
import { answering, answerOf, endpoint, parsed, tls, trusted } from "../../support/Endpoints.ts"
import {
  accepted,
  both,
  connectors,
  expectOfBoth,
  http,
  httpTo,
  message,
  overdue,
  postponed,
  refused,
  reply,
  secret,
  send,
  start,
  taken,
  telegram,
  telegramTo,
  token,
  unknown
} from "./Connectors.support.ts"
import { TestClock } from "effect/testing"
import { until, untilLive } from "../../support/Waiting.ts"

const test = providing(connectors())

/** Returns the outcome of a status by the contract; `taken` is that of a status that accepts. */
const meaning = (status: number, provider = "http", taken = unreadable): CallOutcome => {
  const code = `${provider}_${status}`
  if (status >= 200 && status <= 299) return taken
  if (status === 429 || status === 503) return postponed(code)
  return status >= 400 && status <= 499 && status !== 408 ? refused(code) : unknown(code)
}

const unreadable = unknown("unreadable_answer")

/** All statuses from 200 to 599. */
const all = Array.from({ length: 400 }, (_, i) => i + 200)

/** The first and last status of each row of the table, and their neighbours. */
const edges = [200, 299, 300, 399, 400, 407, 408, 409, 428, 429, 430, 499, 500, 502, 503, 504, 599, 600, 999]

/** Starts an endpoint that answers with the status at the beginning of the path. */
const byPath = (body: string) =>
  Effect.map(
    endpoint(({ socket, text }) => socket.write(reply(Number(text.slice("POST /".length, "POST /200".length)), body))),
    ({ port }) => `http://127.0.0.1:${port}/`
  )

describe("an answer of the http provider", () => {
  test("is classified by its status, whatever its body", function* () {
    for (const body of ["ok", "", taken.http, `{"providerMessageId":5}`, "<html>"]) {
      const url = yield* byPath(body)
      for (const status of body === "ok" ? [...all, ...edges] : edges) {
        const meant = meaning(status, "http", body === taken.http && status !== 204 ? accepted("8812") : undefined)
        assert.deepStrictEqual(yield* send(httpTo(`${url}${status}`)), meant, `${status} ${body}`)
      }
    }
  })

  test("accepts with any string as id in any JSON object", function* () {
    const outcomeOf = (body: string, status = 200) =>
      Effect.flatMap(answering(reply(status, body)), (provider) => send(http(provider)))
    assert.deepStrictEqual(yield* outcomeOf(` {"more":[{}],"providerMessageId" : "a-1" }\n`), accepted("a-1"))
    assert.deepStrictEqual(yield* outcomeOf(`{"providerMessageId":"\\u00e4 🚲"}`, 202), accepted("ä 🚲"))
    assert.deepStrictEqual(yield* outcomeOf(`{"providerMessageId":""}`, 299), accepted(""))
    for (const body of [
      "{}",
      "null",
      "[]",
      `"8812"`,
      `{"providerMessageId":8812}`,
      `{"providerMessageId":null}`,
      `{"providermessageid":"8812"}`,
      `{"__proto__":{"providerMessageId":"8812"}}`,
      `[{"providerMessageId":"8812"}]`,
      `{"providerMessageId":"8812"`,
      `{"providerMessageId":"8812"}}`,
      `providerMessageId=8812`,
      // PostgreSQL can store neither of these.
      `{"providerMessageId":"a\\u0000"}`,
      `{"providerMessageId":"a\\ud83d"}`
    ])
      assert.deepStrictEqual(yield* outcomeOf(body), unreadable, body)
    const noUtf8 = Buffer.concat([Buffer.from(`{"providerMessageId":"`), Buffer.from([0xff]), Buffer.from(`"}`)])
    const provider = yield* endpoint(({ socket }) => {
      socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${noUtf8.byteLength}\r\n\r\n`)
      socket.write(noUtf8)
    })
    assert.deepStrictEqual(yield* send(http(provider)), unreadable)
  })
})

describe("an answer of Telegram", () => {
  const outcomeOf = (status: number, body: string) =>
    Effect.flatMap(answering(reply(status, body)), (provider) => send(telegram(provider)))

  test("accepts with the message's id as a string", function* () {
    assert.deepStrictEqual(yield* outcomeOf(200, taken.telegram), accepted("8812"))
    const whole = `{"ok":true,"result":{"message_id":9007199254740991,"chat":{"id":-5,"type":"private"},"text":"x"}}`
    assert.deepStrictEqual(yield* outcomeOf(200, whole), accepted("9007199254740991"))
  })

  test("that is not ok is classified by its error code, whatever the HTTP status", function* () {
    for (const status of [200, 302, 400, 429, 500, 503]) {
      for (const code of status === 200 ? [...all, ...edges] : edges) {
        const body = `{"ok":false,"error_code":${code},"description":"Told so"}`
        assert.deepStrictEqual(yield* outcomeOf(status, body), meaning(code, "telegram"), `${status} ${code}`)
      }
    }
  })

  test("that the chat has moved is followed, once", function* () {
    const moved = `{"ok":false,"error_code":400,"description":"group chat was upgraded","parameters":{"migrate_to_chat_id":-1001234567890}}`
    const following = yield* endpoint(({ earlier, socket }) =>
      socket.write(earlier === 0 ? reply(400, moved) : reply(200, taken.telegram))
    )
    assert.deepStrictEqual(yield* send(telegram(following)), accepted("8812"))
    const chats = following.received.map(({ text }) => JSON.parse(parsed(text).body).chat_id)
    assert.deepStrictEqual(chats, [message.recipient, -1_001_234_567_890])

    const moving = yield* answering(reply(400, moved))
    assert.deepStrictEqual(yield* send(telegram(moving)), refused("telegram_400"))
    assert.strictEqual(moving.received.length, 2)
    // An outcome that is open is not repeated.
    const open = yield* answering(reply(500, moved.replace("400", "500")))
    assert.deepStrictEqual(yield* send(telegram(open)), unknown("telegram_500"))
    assert.strictEqual(open.received.length, 1)
  })

  test("without an error code is classified by the HTTP status", function* () {
    for (const body of [
      `{"ok":false}`,
      `{"ok":false,"error_code":null}`,
      `{"ok":false,"error_code":"403"}`,
      `{"ok":false,"error_code":0}`,
      `{"ok":false,"error_code":1000}`,
      `{"ok":false,"error_code":403.5}`,
      `{"error_code":403}`,
      `{"ok":"false","error_code":403}`,
      "<html>",
      ""
    ]) {
      const url = yield* byPath(body)
      for (const status of edges) {
        assert.deepStrictEqual(yield* send(telegramTo(`${url}${status}`)), meaning(status), `${status} ${body}`)
      }
    }
  })
})

test("an answer of any provider is read up to 64 KiB, and a longer one is classified by its status", function* () {
  for (const [body, channelOf] of [
    [taken.http, http],
    [taken.telegram, telegram]
  ] as const) {
    const outcomeOf = (status: number, length: number) =>
      Effect.flatMap(answering(reply(status, body.padEnd(length))), (provider) => send(channelOf(provider)))
    assert.deepStrictEqual(yield* outcomeOf(200, 65_536), accepted("8812"))
    for (const length of [65_537, 70 * 1024]) {
      for (const status of [200, 400, 500]) {
        assert.deepStrictEqual(yield* outcomeOf(status, length), meaning(status))
      }
    }
  }
})

test("an outcome that is no acceptance has the provider's words without secrets", function* () {
  const reasonOf = (channel: ChannelConfig) =>
    Effect.map(sendOver(channel, message, Duration.seconds(10)), (outcome) =>
      outcome._tag === "accepted" ? outcome : outcome.reason
    )
  const told = (body: string | Buffer, status = 400) =>
    endpoint(({ socket }) => {
      socket.write(`HTTP/1.1 ${status} Told so\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n`)
      socket.write(body)
    })
  const description = `Bad Request: ${token} is unknown \u0000\ud83d${"x".repeat(300)}`
  const words = yield* reasonOf(telegram(yield* told(JSON.stringify({ ok: false, error_code: 400, description }))))
  assert.isString(words)
  assert.strictEqual(words, `Bad Request: [redacted] is unknown \uFFFD\uFFFD${"x".repeat(300)}`.slice(0, 256))
  assert.isUndefined(yield* reasonOf(telegram(yield* told(`{"ok":false,"error_code":400}`))))
  assert.strictEqual(yield* reasonOf(http(yield* told(` no such number\n`, 500))), "no such number")
  assert.strictEqual(
    yield* reasonOf(http(yield* told(`key ${secret}, dk_${"a".repeat(50)}`))),
    "key [redacted], dk_[redacted]"
  )
  assert.strictEqual(yield* reasonOf(http(yield* told(Buffer.from([0x61, 0xff, 0x00])))), "a\uFFFD\uFFFD")
  assert.isUndefined(yield* reasonOf(http(yield* told(""))))
  assert.isUndefined(yield* reasonOf(http(yield* Effect.scoped(told("")))))
})

describe("the delay that a provider requests", () => {
  // The test clock starts at the beginning of 1970.
  providing(connectors(), "effect")("is Retry-After in seconds or as a date, at most an hour", function* () {
    for (const [value, seconds] of [
      ["120", 120],
      ["0", 0],
      ["3601", 3_600],
      ["99999999999999999999", 3_600],
      ["Thu, 01 Jan 1970 00:02:00 GMT", 120],
      ["Fri, 01 Jan 2100 00:00:00 GMT", 3_600],
      ["soon", undefined]
    ] as const) {
      for (const status of [429, 503]) {
        const provider = yield* answering(answerOf(status, `retry-after: ${value}`))
        yield* expectOfBoth(provider, postponed(`http_${status}`, seconds), { what: value })
      }
    }
  })

  providing(connectors(), "effect")("is retry_after of Telegram's parameters before Retry-After", function* () {
    for (const code of [429, 503]) {
      for (const [parameters, seconds] of [
        [`,"parameters":{"retry_after":30}`, 30],
        [`,"parameters":{"retry_after":0}`, 0],
        [`,"parameters":{"retry_after":7200}`, 3_600],
        [`,"parameters":{"retry_after":1e300}`, 3_600],
        [`,"parameters":{"retry_after":-1}`, 7],
        [`,"parameters":{"retry_after":"30"}`, 7],
        [`,"parameters":{}`, 7],
        [`,"parameters":null`, 7],
        ["", 7]
      ] as const) {
        const body = `{"ok":false,"error_code":${code}${parameters}}`
        const provider = yield* answering(reply(code, body, "retry-after: 7"))
        assert.deepStrictEqual(yield* send(telegram(provider)), postponed(`telegram_${code}`, seconds), parameters)
      }
    }
    const alone = yield* answering(reply(200, `{"ok":false,"error_code":429,"parameters":{"retry_after":30}}`))
    assert.deepStrictEqual(yield* send(telegram(alone)), postponed("telegram_429", 30))
  })
})

const secure = "https://localhost"

describe("a provider call is postponed when it", () => {
  test("cannot resolve the provider's name", function* () {
    for (const origin of ["http://provider.invalid", "https://provider.invalid"]) {
      yield* expectOfBoth({ port: 8080 }, postponed("dns_failed"), { origin })
    }
  })

  test("is refused at every address", function* () {
    const nobody = yield* Effect.scoped(endpoint(() => {}))
    for (const host of ["127.0.0.1", "localhost", "[::1]"]) {
      for (const channel of [...both(nobody, `http://${host}`), ...both(nobody, `https://${host}`)]) {
        assert.deepStrictEqual(yield* send(channel), postponed("connect_failed"), host)
      }
    }
  })

  providing(connectors({}), "effect")("has no connection within its deadline", function* () {
    let hellos = 0
    const provider = yield* endpoint(() => {}, { connected: (socket) => socket.on("data", () => hellos++) })
    for (const channel of both(provider, secure)) {
      const before = hellos
      assert.deepStrictEqual(yield* overdue(channel, () => hellos > before), postponed("connect_timeout"))
      yield* untilLive(() => provider.closed() === provider.connections())
    }
  })
})

/** `webhooks/address/Sender.answers` tests all invalid and late answers: both send with `outbound/Exchange`. */
describe("a provider call is unknown when it", () => {
  providing(connectors({}), "effect")("is not read within its deadline", function* () {
    let arrived = 0
    const provider = yield* endpoint(() => {}, { connected: (socket) => socket.once("readable", () => arrived++) })
    for (const [i, channel] of both(provider).entries()) {
      assert.deepStrictEqual(yield* overdue(channel, () => arrived > i), unknown("timeout"))
    }
  })

  providing(connectors({ PROVIDER_TIMEOUT: "3s" }), "effect")("has no answer within PROVIDER_TIMEOUT", function* () {
    const provider = yield* endpoint(() => {})
    const sending = yield* start(http(provider))
    yield* untilLive(() => provider.received.length === 1)
    yield* TestClock.adjust("2999 millis")
    assert.isUndefined(sending.pollUnsafe())
    yield* TestClock.adjust("1 millis")
    assert.deepStrictEqual(yield* Fiber.join(sending), unknown("timeout"))
  })

  test("loses its connection before or within the answer", function* () {
    yield* trusted
    // An answer that breaks off is none, whatever its status.
    const text = `HTTP/1.1 400 Bad Request\r\ncontent-length: 1000\r\n\r\n{"ok":false,"error_code":400}`
    for (const begun of ["", text]) {
      for (const options of [{}, { tls }]) {
        const provider = yield* endpoint(({ socket }) => socket.write(begun, () => socket.destroy()), options)
        const origin = "tls" in options ? { origin: secure } : {}
        yield* expectOfBoth(provider, unknown("connection_lost"), { what: begun, ...origin })
        // No call is repeated over another connection.
        assert.strictEqual(provider.received.length, 2)
      }
    }
  })
})

test("a connection to a provider is opened for each call and closed with its answer", function* () {
  const provider = yield* answering(reply(200, taken.http, "connection: keep-alive"))
  for (let i = 1; i <= 3; i++) {
    assert.deepStrictEqual(yield* send(http(provider)), accepted("8812"))
    assert.strictEqual(provider.connections(), i)
    yield* until(() => provider.closed() === i)
  }
})
