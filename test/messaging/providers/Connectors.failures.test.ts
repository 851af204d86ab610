/** Outcomes of calls without an answer (contract §8), by whether the request may have been written; their connections. */
import { assert, describe, it, providing } from "../../support/Vitest.ts"
import { Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { answering, endpoint } from "../../support/Endpoints.ts"
import { tls, trusted } from "../../support/Tls.ts"
import {
  accepted,
  both,
  connectors,
  expectOfBoth,
  http,
  httpTo,
  overdue,
  postponed,
  reply,
  send,
  start,
  taken,
  telegram,
  unknown
} from "./Connectors.support.ts"
import { until, untilLive } from "../../support/Waiting.ts"

const test = providing(connectors())

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

  test("meets an untrusted certificate or one of another host", function* () {
    const read: Array<unknown> = []
    const providing = (version: "TLSv1.2" | "TLSv1.3") =>
      endpoint(() => {}, {
        tls: { ...tls, minVersion: version, maxVersion: version },
        connected: (socket) => socket.on("data", (chunk) => read.push(chunk))
      })
    const providers = [yield* providing("TLSv1.2"), yield* providing("TLSv1.3")]
    for (const provider of providers) {
      yield* expectOfBoth(provider, postponed("tls_failed"), { origin: secure })
    }
    yield* trusted
    for (const provider of providers) {
      yield* expectOfBoth(provider, postponed("tls_failed"), { origin: "https://127.0.0.1" })
    }
    yield* until(() => providers.every((provider) => provider.closed() === provider.connections()))
    assert.deepStrictEqual(read, [])
  })

  it.effect("has no connection within its deadline", () =>
    Effect.gen(function* () {
      let hellos = 0
      const provider = yield* endpoint(() => {}, { connected: (socket) => socket.on("data", () => hellos++) })
      for (const channel of both(provider, secure)) {
        const before = hellos
        assert.deepStrictEqual(yield* overdue(channel, () => hellos > before), postponed("connect_timeout"))
        yield* untilLive(() => provider.closed() === provider.connections())
      }
    }).pipe(Effect.provide(connectors({})))
  )
})

/** `integrations/endpoints/Sender.answers` tests all invalid and late answers: both send with `platform/outbound/Exchange`. */
describe("a provider call is unknown when it", () => {
  it.effect("is not read within its deadline", () =>
    Effect.gen(function* () {
      let arrived = 0
      const provider = yield* endpoint(() => {}, { connected: (socket) => socket.once("readable", () => arrived++) })
      for (const [i, channel] of both(provider).entries()) {
        assert.deepStrictEqual(yield* overdue(channel, () => arrived > i), unknown("timeout"))
      }
    }).pipe(Effect.provide(connectors({})))
  )

  it.effect("has no answer within PROVIDER_TIMEOUT", () =>
    Effect.gen(function* () {
      const provider = yield* endpoint(() => {})
      const sending = yield* start(http(provider))
      yield* untilLive(() => provider.received.length === 1)
      yield* TestClock.adjust("2999 millis")
      assert.isUndefined(sending.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      assert.deepStrictEqual(yield* Fiber.join(sending), unknown("timeout"))
    }).pipe(Effect.provide(connectors({ PROVIDER_TIMEOUT: "3s" })))
  )

  test("loses its connection before or within the answer", function* () {
    yield* trusted
    const broken = [
      "",
      `HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n${taken.http}`,
      `HTTP/1.1 400 Bad Request\r\ncontent-length: 1000\r\n\r\n{"ok":false,"error_code":400}`
    ]
    for (const text of broken) {
      for (const cut of ["end", "resetAndDestroy"] as const) {
        const plain = yield* endpoint(({ socket }) => socket.write(text, () => socket[cut]()))
        yield* expectOfBoth(plain, unknown("connection_lost"), { what: `${cut} ${text}` })
        assert.strictEqual(plain.received.length, 2)
      }
      for (const cut of ["end", "destroy"] as const) {
        const encrypted = yield* endpoint(({ socket }) => socket.write(text, () => socket[cut]()), { tls })
        yield* expectOfBoth(encrypted, unknown("connection_lost"), { what: `${cut} ${text}`, origin: secure })
        assert.strictEqual(encrypted.received.length, 2)
      }
    }
  })

  test("is refused by TLS after the request was sent", function* () {
    yield* trusted
    // With TLS 1.3, the server rejects the missing client certificate only after the client's handshake has ended.
    const provider = yield* endpoint(() => {}, {
      tls: { ...tls, requestCert: true, rejectUnauthorized: true, minVersion: "TLSv1.3" }
    })
    yield* expectOfBoth(provider, unknown("connection_lost"), { origin: secure })
  })

  test("gets an answer that is not HTTP, of ambiguous length or of another protocol", function* () {
    const garbage = [
      "SSH-2.0-OpenSSH_9.9\r\n",
      "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
      // The answer is longer than its length; the part within the length is not JSON.
      `HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n${taken.http}`
    ]
    for (const text of garbage) {
      const provider = yield* answering(text)
      yield* expectOfBoth(provider, unknown("unreadable_answer"), { what: text.slice(0, 80) })
      yield* until(() => provider.closed() === 2)
    }
  })
})

describe("a connection to a provider", () => {
  test("is opened for each call and closed with its answer", function* () {
    const provider = yield* answering(reply(200, taken.http, "connection: keep-alive"))
    for (let i = 1; i <= 3; i++) {
      assert.deepStrictEqual(yield* send(http(provider)), accepted("8812"))
      assert.strictEqual(provider.connections(), i)
      yield* until(() => provider.closed() === i)
    }
  })

  test("is never replaced within a call", function* () {
    const provider = yield* endpoint(({ connection, socket }) =>
      connection === 1 ? socket.resetAndDestroy() : socket.write(reply(200, taken.telegram))
    )
    assert.deepStrictEqual(yield* send(telegram(provider)), unknown("connection_lost"))
    assert.strictEqual(provider.connections(), 1)
  })

  test("may have TLS", function* () {
    yield* trusted
    const provider = yield* endpoint(
      ({ socket, text }) => socket.write(reply(200, text.includes("/bot") ? taken.telegram : taken.http)),
      { tls }
    )
    yield* expectOfBoth(provider, accepted("8812"), { origin: "https://localhost" })
  })

  test("is closed when its fiber is interrupted, ready or not", function* () {
    const silent = yield* endpoint(() => {})
    const inHandshake = yield* endpoint(() => {}, { connected: (socket) => socket.resume() })
    for (const [provider, channel] of [
      [silent, http(silent)],
      [inHandshake, httpTo(`https://127.0.0.1:${inHandshake.port}/`)]
    ] as const) {
      const sending = yield* start(channel)
      yield* until(() => provider.received.length + (provider === silent ? 0 : provider.connections()) === 1)
      yield* Fiber.interrupt(sending)
      yield* until(() => provider.closed() === 1)
    }
  })
})
