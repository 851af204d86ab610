/** Connections to providers: each call has its own. */
import { assert, describe, providing } from "../../support/Vitest.ts"
import { Fiber } from "effect"
import { answering, endpoint } from "../../support/Endpoints.ts"
import { tls, trusted } from "../../support/Tls.ts"
import {
  accepted,
  expectOfBoth,
  connectors,
  http,
  httpTo,
  reply,
  send,
  start,
  taken,
  telegram,
  unknown
} from "./Connectors.support.ts"
import { until } from "../../support/Waiting.ts"

const test = providing(connectors())

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
