import { assert, describe, it, providing, vi } from "../../support/Vitest.ts"
import { Duration, Effect, Exit, Fiber, Layer, Scope } from "effect"
import { execFile } from "node:child_process"
import { isIP } from "node:net"
import { TLSSocket } from "node:tls"
import { networkInterfaces } from "node:os"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { networksOf } from "../../../src/webhooks/address/Addresses.ts"
import { Sender } from "../../../src/webhooks/address/Sender.ts"
import { NameUnresolved } from "../../../src/outbound/Connections.ts"
import { answering, answerOf, endpoint, type Received, tls, trusted } from "../../support/Endpoints.ts"
import { at, resultOf, send, sender } from "./Sender.support.ts"
import { until } from "../../support/Waiting.ts"

const test = providing(sender())

const loopback = networksOf(["127.0.0.0/8"])
const url = ({ port }: { readonly port: number }, host = "hooks.test") => `http://${host}:${port}/`

describe("a connection to an endpoint", () => {
  test("is kept for the next delivery to the same endpoint", function* () {
    const hook = yield* answering(answerOf(200))
    for (let i = 0; i < 5; i++) assert.strictEqual(resultOf(yield* send(url(hook))), 200)
    assert.strictEqual(hook.connections(), 1)
    // Another name is another endpoint, even at the same address.
    assert.strictEqual(resultOf(yield* send(url(hook, "other.test"))), 200)
    assert.strictEqual(hook.connections(), 2)
  })

  test("is kept up to a limit", function* () {
    const hook = yield* answering(answerOf(200))
    const hosts = Array.from({ length: 530 }, (_, i) => `hooks${i}.test`)
    yield* Effect.forEach(hosts, (host) => send(url(hook, host)), { concurrency: 10 })
    yield* until(() => hook.connections() === 530 && hook.closed() === 18)
  })

  test("is kept however many have ended before", function* () {
    const closing = yield* answering(answerOf(200, "connection: close"))
    const hosts = Array.from({ length: 530 }, (_, i) => `hooks${i}.test`)
    yield* Effect.forEach(hosts, (host) => send(url(closing, host)), { concurrency: 10 })
    yield* until(() => closing.closed() === 530)
    const hook = yield* answering(answerOf(200))
    for (let i = 0; i < 3; i++) yield* send(url(hook))
    assert.strictEqual(hook.connections(), 1)
  })

  test("that answered last is used next, so that the others end", function* () {
    const waiting: Array<Received> = []
    const hook = yield* endpoint((received) => {
      if (received.earlier >= 3) return received.socket.write(answerOf(200))
      if (waiting.push(received) === 3) for (const { socket } of waiting) socket.write(answerOf(200))
    })
    yield* Effect.all([send(url(hook)), send(url(hook)), send(url(hook))], { concurrency: 3 })
    for (let i = 0; i < 4; i++) yield* send(url(hook))
    assert.strictEqual(new Set(hook.received.slice(3).map(({ socket }) => socket)).size, 1)
    assert.strictEqual(hook.connections(), 3)
  })

  test("is not kept when the endpoint closes it, nor after an answer that was cut off", function* () {
    const closing = yield* endpoint(({ socket }) => socket.end(answerOf(200, "connection: close")))
    const silent = yield* endpoint(({ socket }) => socket.end(answerOf(200)))
    const long = yield* answering("HTTP/1.1 200 OK", "content-length: 30000", "", "x".repeat(20_000))
    for (const hook of [closing, silent, long]) {
      for (let i = 1; i <= 3; i++) {
        assert.strictEqual(resultOf(yield* send(url(hook))), 200)
        yield* until(() => hook.closed() === i)
      }
      assert.strictEqual(hook.connections(), 3)
    }
  })

  test("that was kept and breaks before the answer is replaced, once", function* () {
    for (const cut of ["end", "resetAndDestroy"] as const) {
      const stale = yield* endpoint(({ connection, earlier, socket }) =>
        connection === 1 && earlier === 1 ? socket[cut]() : socket.write(answerOf(200 + earlier))
      )
      assert.strictEqual(resultOf(yield* send(url(stale))), 200)
      assert.strictEqual(resultOf(yield* send(url(stale))), 202)
      assert.strictEqual(stale.connections(), 2)

      const dead = yield* endpoint(({ earlier, socket }) =>
        earlier === 0 ? socket.write(answerOf(200)) : socket[cut]()
      )
      assert.strictEqual(resultOf(yield* send(url(dead))), 200)
      assert.strictEqual(resultOf(yield* send(url(dead))), "connection_lost")
      assert.strictEqual(dead.received.length, 3)
    }
  })

  test("is not replaced when it is new or the answer has begun", function* () {
    const begun = yield* endpoint(({ earlier, socket }) =>
      earlier === 0 ? socket.write(answerOf(200)) : socket.write("H", () => socket.resetAndDestroy())
    )
    assert.strictEqual(resultOf(yield* send(url(begun))), 200)
    assert.strictEqual(resultOf(yield* send(url(begun))), "connection_lost")
    assert.strictEqual(begun.received.length, 2)

    const fresh = yield* endpoint(({ socket }) => socket.resetAndDestroy())
    assert.strictEqual(resultOf(yield* send(url(fresh))), "connection_lost")
    assert.strictEqual(fresh.received.length, 1)
  })

  test("ignores an answer that precedes the request", function* () {
    const eager = yield* endpoint(({ connection, socket }) => {
      socket.write(answerOf(connection === 1 ? 200 : 500))
      if (connection === 1) setTimeout(() => socket.write(answerOf(299)), 30)
    })
    assert.strictEqual(resultOf(yield* send(url(eager))), 200)
    yield* until(() => eager.closed() === 1)
    assert.strictEqual(resultOf(yield* send(url(eager))), 500)
  })

  test("is closed when its fiber is interrupted, ready or not", function* () {
    const silent = yield* endpoint(() => {})
    const inHandshake = yield* endpoint(() => {}, { connected: (socket) => socket.resume() })
    for (const [hook, to, isSent] of [
      [silent, url(silent), () => silent.received.length === 1],
      [inHandshake, url(inHandshake).replace("http:", "https:"), () => inHandshake.connections() === 1]
    ] as const) {
      const fiber = yield* Effect.forkChild(send(to))
      yield* until(isSent)
      yield* Fiber.interrupt(fiber)
      yield* until(() => hook.closed() === 1)
    }
  })

  it.live("is closed with the sender when idle", function* () {
    const hook = yield* answering(answerOf(200))
    const scope = yield* Scope.make()
    const context = yield* Layer.buildWithScope(sender(), scope)
    yield* Effect.provide(send(url(hook)), context)
    assert.strictEqual(hook.closed(), 0)
    yield* Scope.close(scope, Exit.void)
    yield* until(() => hook.closed() === 1)
  })

  test("ends when it was idle for 15 s, also if the endpoint offers to keep it longer", function* () {
    const hook = yield* answering(answerOf(200, "keep-alive: timeout=600"))
    yield* send(url(hook))
    yield* until(() => hook.closed() === 1)
  })

  providing(sender({ resolve: at("127.0.0.9", "127.0.0.1") }))(
    "is tried at the next address when it is refused",
    function* () {
      const hook = yield* Effect.scoped(answering(answerOf(200)))
      assert.strictEqual(resultOf(yield* send(url(hook))), "connect_failed")
      const served = yield* answering(answerOf(200))
      assert.strictEqual(resultOf(yield* send(url(served))), 200)
    }
  )
})

it.live(
  "a process without file descriptors says so, whether it lacks them for a connection or for a name",
  function* () {
    const hook = yield* answering(answerOf(200, "connection: close"))
    const child = fileURLToPath(new URL("./Exhausted.child.ts", import.meta.url))
    const urls = ["127.0.0.1", "127.0.0.1", "localhost", "hooks.invalid"].map((host) => url(hook, host))
    const { stdout } = yield* Effect.promise(() =>
      promisify(execFile)("sh", ["-c", `ulimit -n 64; exec "$0" "$@"`, process.execPath, child, ...urls])
    )
    assert.deepStrictEqual(JSON.parse(stdout), [200, ...urls.slice(1).map(() => "host_exhausted"), 200])
  }
)

describe("an endpoint's address", () => {
  it.live("that is not public is never connected to", function* () {
    const hook = yield* answering(answerOf(200))
    const refusing = (...addresses: ReadonlyArray<string>) =>
      Effect.map(
        send(url(hook)).pipe(Effect.provide(sender({ allowed: ["192.168.0.0/16"], resolve: at(...addresses) }))),
        resultOf
      )
    assert.strictEqual(yield* refusing("127.0.0.1"), "address_refused")
    assert.strictEqual(yield* refusing("::ffff:127.0.0.1", "64:ff9b::7f00:1", "169.254.169.254"), "address_refused")
    // Public, but plain http is permitted only to allowed networks.
    assert.strictEqual(yield* refusing("192.0.0.9"), "address_refused")
    assert.strictEqual(hook.connections(), 0)
  })

  providing(
    sender({
      allowed: ["127.0.0.1"],
      resolve: (host) => (isIP(host) === 0 ? Effect.die(new Error("names were asked")) : Effect.succeed([host]))
    })
  )("in the URL is classified without a DNS query", function* () {
    const hook = yield* answering(answerOf(200))
    assert.strictEqual(resultOf(yield* send(url(hook, "127.0.0.1"))), 200)
    assert.strictEqual(resultOf(yield* send(url(hook, "0x7f.1"))), 200)
    for (const host of ["127.0.0.2", "0x7f000002", "[::ffff:127.0.0.2]", "10.0.0.1", "192.0.0.9"]) {
      assert.strictEqual(resultOf(yield* send(url(hook, host))), "address_refused", host)
    }
    for (const to of ["https://user@hooks.test/", "ftp://hooks.test/", "https://hooks.test/#", "nonsense"]) {
      assert.strictEqual(resultOf(yield* send(to)), "address_refused", to)
    }
  })

  providing(
    sender({
      allowed: ["127.0.0.1"],
      resolve: at("127.0.0.2", "10.0.0.1", "::ffff:127.0.0.2", "169.254.169.254", "127.0.0.1", "127.0.0.3")
    })
  )("is chosen among the public or allowed ones", function* () {
    const hook = yield* answering(answerOf(200))
    const otherServer = yield* endpoint(({ socket }) => socket.write(answerOf(299)), {
      host: "127.0.0.2",
      port: hook.port
    })
    assert.strictEqual(resultOf(yield* send(url(hook))), 200)
    assert.strictEqual(otherServer.connections(), 0)
  })

  it.live("of this machine is not called at a port of this service, in any spelling", function* () {
    const hook = yield* answering(answerOf(200))
    const other = yield* answering(answerOf(200))
    const own = Object.values(networkInterfaces()).flatMap((addresses) =>
      (addresses ?? []).map(({ address }) => address)
    )
    const spellings = ["127.0.0.1", "127.1.2.3", "0.0.0.0", "::", "::1", "::ffff:127.0.0.1", ...own]
    yield* Effect.gen(function* () {
      for (const address of spellings) {
        const host = address.includes(":") ? `[${address}]` : address
        assert.strictEqual(resultOf(yield* send(url(hook, host))), "address_refused", address)
      }
      for (const _ of spellings) assert.strictEqual(resultOf(yield* send(url(hook))), "address_refused")
      assert.strictEqual(resultOf(yield* send(url(other))), 200)
    }).pipe(
      Effect.provide(
        sender({
          allowed: ["0.0.0.0/0", "::/0"],
          isOwnPort: (port) => port === hook.port,
          resolve: (host) => Effect.succeed([isIP(host) === 0 ? (spellings.shift() ?? "127.0.0.1") : host])
        })
      )
    )
    assert.strictEqual(hook.connections(), 0)
  })

  it.live("is resolved and checked for each connection, and is the one connected to", () => {
    const answers = [["127.0.0.1"], ["127.0.0.2"], ["10.0.0.1"], ["127.0.0.1"]]
    let lookups = 0
    return Effect.gen(function* () {
      const hook = yield* answering(answerOf(200, "connection: close"))
      const rebound = yield* endpoint(({ socket }) => socket.write(answerOf(299)), {
        host: "127.0.0.2",
        port: hook.port
      })
      const outcomes = []
      for (const _ of answers) outcomes.push(resultOf(yield* send(url(hook))))
      assert.deepStrictEqual(outcomes, [200, "address_refused", "address_refused", 200])
      assert.strictEqual(lookups, 4)
      assert.strictEqual(rebound.connections(), 0)
    }).pipe(Effect.provide(sender({ allowed: ["127.0.0.1"], resolve: () => Effect.succeed(answers[lookups++] ?? []) })))
  })

  it.live("is looked up again after the answer at which a connection is older than 30 s", () => {
    let lookups = 0
    return Effect.gen(function* () {
      const hook = yield* answering(answerOf(200))
      const counts = []
      vi.useFakeTimers({ toFake: ["performance"] })
      for (const seconds of [0, 29, 2, 0]) {
        vi.advanceTimersByTime(seconds * 1_000)
        yield* send(url(hook))
        counts.push([hook.connections(), lookups])
      }
      assert.deepStrictEqual(counts, [
        [1, 1],
        [1, 1],
        [1, 1],
        [2, 2]
      ])
    }).pipe(
      Effect.provide(sender({ resolve: () => Effect.sync(() => (lookups++, ["127.0.0.1"])) })),
      Effect.ensuring(Effect.sync(() => vi.useRealTimers()))
    )
  })

  providing(sender({ resolve: () => Effect.fail(new NameUnresolved({ code: "ENOTFOUND" })) }))(
    "that does not exist is a failure of its own",
    function* () {
      assert.strictEqual(resultOf(yield* send("https://hooks.test/")), "dns_failed")
    }
  )

  providing(sender({ timeout: "50 millis", resolve: () => Effect.never }))(
    "that is not resolved in time is a timeout",
    function* () {
      assert.strictEqual(resultOf(yield* send("https://hooks.test/")), "timeout")
    }
  )

  providing(Sender.layer({ timeout: Duration.seconds(10), allowed: loopback }))(
    "is resolved from the system for localhost",
    function* () {
      const hook = yield* answering(answerOf(200))
      assert.strictEqual(resultOf(yield* send(url(hook, "localhost"))), 200)
    }
  )
})

const secureUrl = ({ port }: { readonly port: number }, host = "hooks.test") => `https://${host}:${port}/`
const secure = (answer: (received: Received) => void) => endpoint(answer, { tls })

describe("a delivery over TLS", () => {
  test("requires a trusted certificate", function* () {
    const hook = yield* secure(({ socket }) => socket.write(answerOf(200)))
    assert.strictEqual(resultOf(yield* send(secureUrl(hook))), "tls_failed")
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
    assert.strictEqual(resultOf(yield* send(secureUrl(hook))), 200)
    assert.deepStrictEqual(serverNames.splice(0), ["hooks.test", `hooks.test:${hook.port}`])
    // A trailing dot makes no difference for DNS and TLS, and is kept in HTTP.
    assert.strictEqual(resultOf(yield* send(secureUrl(hook, "hooks.test."))), 200)
    assert.deepStrictEqual(serverNames.splice(0), ["hooks.test", `hooks.test.:${hook.port}`])
    assert.strictEqual(resultOf(yield* send(secureUrl(hook, "other.test"))), "tls_failed")
    assert.strictEqual(resultOf(yield* send(secureUrl(hook, "127.0.0.1"))), "tls_failed")
  })

  providing(sender({ timeout: "1 second" }))(
    "fails when the endpoint speaks no TLS or ends the handshake",
    function* () {
      const plain = yield* answering(answerOf(200))
      const talking = yield* endpoint(() => {}, { connected: (socket) => socket.end(answerOf(200)) })
      const closing = yield* endpoint(() => {}, { connected: (socket) => socket.once("data", () => socket.end()) })
      const resetting = yield* endpoint(() => {}, {
        connected: (socket) => socket.once("data", () => socket.resetAndDestroy())
      })
      for (const hook of [talking, closing, resetting]) {
        assert.strictEqual(resultOf(yield* send(secureUrl(hook))), "tls_failed")
      }
      assert.strictEqual(resultOf(yield* send(secureUrl(plain))), "timeout")
    }
  )
})
