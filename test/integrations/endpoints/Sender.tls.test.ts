import { assert, describe, it, providing } from "../../support/Vitest.ts"
import { Effect } from "effect"
import { TLSSocket } from "node:tls"
import { answering, answerOf, endpoint, type Received } from "../../support/Endpoints.ts"
import { tls, trusted } from "../../support/Tls.ts"
import { resultOf, send, sender } from "./Sender.support.ts"

const test = providing(sender())

const secure = (answer: (received: Received) => void) => endpoint(answer, { tls })
const at = ({ port }: { readonly port: number }, host = "hooks.test") => `https://${host}:${port}/`

describe("a delivery over TLS", () => {
  test("requires a trusted certificate", function* () {
    const hook = yield* secure(({ socket }) => socket.write(answerOf(200)))
    assert.strictEqual(resultOf(yield* send(at(hook))), "tls_failed")
    assert.strictEqual(hook.received.length, 0)
  })

  test("requires a certificate for the host, which is sent as server name", function* () {
    yield* trusted
    const serverNames: Array<unknown> = []
    const hook = yield* endpoint(() => {}, {
      tls,
      connected: (socket) => {
        if (socket instanceof TLSSocket) serverNames.push(socket.servername)
        socket.on("data", (chunk) => {
          serverNames.push(/\r\nhost: (.*)\r\n/i.exec(chunk.toString())?.[1])
          socket.write(answerOf(200))
        })
      }
    })
    assert.strictEqual(resultOf(yield* send(at(hook))), 200)
    assert.deepStrictEqual(serverNames.splice(0), ["hooks.test", `hooks.test:${hook.port}`])
    // A trailing dot makes no difference for DNS and TLS, and is kept in HTTP.
    assert.strictEqual(resultOf(yield* send(at(hook, "hooks.test."))), 200)
    assert.deepStrictEqual(serverNames.splice(0), ["hooks.test", `hooks.test.:${hook.port}`])
    assert.strictEqual(resultOf(yield* send(at(hook, "other.test"))), "tls_failed")
    assert.strictEqual(resultOf(yield* send(at(hook, "127.0.0.1"))), "tls_failed")
  })

  test("keeps and replaces connections as without TLS", function* () {
    yield* trusted
    for (const cut of ["end", "destroy"] as const) {
      const hook = yield* secure(({ connection, earlier, socket }) =>
        connection === 1 && earlier === 2 ? socket[cut]() : socket.write(answerOf(200 + earlier))
      )
      assert.strictEqual(resultOf(yield* send(at(hook))), 200)
      assert.strictEqual(resultOf(yield* send(at(hook))), 201)
      assert.strictEqual(hook.connections(), 1)
      assert.strictEqual(resultOf(yield* send(at(hook))), 203, cut)
      assert.strictEqual(hook.connections(), 2)
    }
  })

  it.live("fails when the endpoint speaks no TLS or ends the handshake", () =>
    Effect.gen(function* () {
      const plain = yield* answering(answerOf(200))
      const talking = yield* endpoint(() => {}, { connected: (socket) => socket.end(answerOf(200)) })
      const closing = yield* endpoint(() => {}, { connected: (socket) => socket.once("data", () => socket.end()) })
      const resetting = yield* endpoint(() => {}, {
        connected: (socket) => socket.once("data", () => socket.resetAndDestroy())
      })
      for (const hook of [talking, closing, resetting]) {
        assert.strictEqual(resultOf(yield* send(at(hook))), "tls_failed")
      }
      assert.strictEqual(resultOf(yield* send(at(plain))), "timeout")
    }).pipe(Effect.provide(sender({ timeout: "1 second" })))
  )
})
