/** Reads of API keys: immediate for known keys, at a bounded rate for invented ones, also over HTTP (contract §3). */
import { assert, describe, it, layer } from "../../../support/Vitest.ts"
import { Duration, Effect, Fiber, Option, Redacted } from "effect"
import { HttpServerRequest } from "effect/http"
import { TestClock } from "effect/testing"
import { once } from "node:events"
import { connect, type Socket } from "node:net"
import { KeyId } from "../../../../src/api/schema/Ids.ts"
import { ServiceUnavailable } from "../../../../src/api/Problems.ts"
import { networkOf, pacedReads } from "../../../../src/platform/requests/auth/KeyReads.ts"
import { generate } from "../../../../src/platform/requests/auth/Token.ts"
import { TestServer } from "../../../support/TestServer.ts"

const idOf = (n: number) => KeyId.make(`key${String(n).padStart(9, "0")}`)
const [valid, other] = [KeyId.make("validvalid01"), KeyId.make("validvalid02")]

/** A table with one key, and the reads of it. */
const open = Effect.gen(function* () {
  const reads: Array<ReadonlyArray<KeyId>> = []
  const table = { available: true, keys: new Set([valid]) }
  const read = yield* pacedReads((keyIds) =>
    Effect.suspend(() => {
      reads.push(keyIds)
      return table.available
        ? Effect.succeed(keyIds.filter((keyId) => table.keys.has(keyId)).map((keyId) => ({ keyId })))
        : Effect.fail(new ServiceUnavailable({ detail: "" }))
    })
  )
  const isFound = (keyId: KeyId) => Effect.map(read(keyId), ({ row }) => Option.isSome(row))
  /** Starts concurrent reads of invented keys; their answers take time on the test clock. */
  const invent = (count: number, from = 0) =>
    Effect.forkChild(
      Effect.forEach(
        Array.from({ length: count }, (_, n) => idOf(from + n)),
        (keyId) => Effect.catchTag(isFound(keyId), "service_unavailable", () => Effect.succeed("refused")),
        { concurrency: "unbounded" }
      )
    )
  return { reads, table, isFound, invent }
})

/** Runs an effect as part of a request from an address. */
const from = <A, E, R>(remoteAddress: string, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> => {
  const request = HttpServerRequest.fromWeb(new Request("http://localhost/"))
  return Effect.provideService(
    effect,
    HttpServerRequest.HttpServerRequest,
    request.modify({ remoteAddress: Option.some(remoteAddress) })
  )
}

describe("reads of API keys", () => {
  it.effect("are few for many invented tokens", function* () {
    const { invent, reads } = yield* open
    for (let round = 0; round < 10; round++) {
      const answers = yield* invent(200, round * 200)
      yield* TestClock.adjust(Duration.millis(100))
      assert.deepStrictEqual(new Set(yield* Fiber.join(answers)), new Set([false]))
    }
    assert.isAtMost(reads.length, 20 + 10 + 10)
  })

  it.effect("are made at once for a key that was found before, whatever others invent", function* () {
    const { invent, isFound, reads } = yield* open
    assert.isTrue(yield* isFound(valid))
    const answers = yield* invent(300)
    yield* Effect.yieldNow
    const before = reads.length
    assert.isTrue(yield* isFound(valid))
    assert.deepStrictEqual(reads.slice(before), [[valid]])
    yield* Fiber.interrupt(answers)
  })

  it.effect("find a new key among invented ones, even if it was presented before it existed", function* () {
    const { invent, isFound, table } = yield* open
    yield* invent(100)
    yield* TestClock.adjust(Duration.millis(50))
    const before = yield* Effect.forkChild(isFound(other))
    yield* TestClock.adjust(Duration.millis(50))
    assert.isFalse(yield* Fiber.join(before))
    table.keys.add(other)
    yield* invent(100, 100)
    const after = yield* Effect.forkChild(isFound(other))
    yield* TestClock.adjust(Duration.millis(50))
    assert.isTrue(yield* Fiber.join(after))
  })

  it.effect("wait in bounded number: further tokens are refused without a read", function* () {
    const { invent, reads } = yield* open
    const answers = yield* invent(6_000)
    yield* TestClock.adjust(Duration.millis(50))
    const refused = (yield* Fiber.join(answers)).filter((answer) => answer === "refused")
    assert.strictEqual(refused.length, 6_000 - 20 - 5_000)
    assert.strictEqual(reads.flat().length, 20 + 5_000)
  })

  it.effect("are made at once for the first unknown keys of an address, whatever others invent", function* () {
    const { invent, isFound, reads } = yield* open
    const answers = yield* from("192.0.2.1", invent(6_000))
    yield* Effect.yieldNow
    const before = reads.length
    assert.isTrue(yield* from("192.0.2.2", isFound(valid)))
    assert.deepStrictEqual(reads.slice(before), [[valid]])
    yield* Fiber.interrupt(answers)
  })

  it.effect("keep places for an address beyond its burst, although others fill the queue", function* () {
    const { invent, isFound } = yield* open
    yield* from("192.0.2.1", invent(6_000))
    yield* from("192.0.2.2", invent(20, 10_000))
    yield* Effect.yieldNow
    const answer = yield* Effect.forkChild(from("192.0.2.2", isFound(valid)))
    yield* TestClock.adjust(Duration.millis(50))
    assert.isTrue(yield* Fiber.join(answer))
  })

  it.effect("are few for the invented tokens of many addresses", function* () {
    const { invent, reads } = yield* open
    const answers = yield* Effect.forEach(Array.from({ length: 100 }), (_, n) =>
      from(`192.0.2.${n}`, invent(20, n * 20))
    )
    yield* TestClock.adjust(Duration.millis(50))
    yield* Fiber.joinAll(answers)
    assert.strictEqual(reads.length, 200 + 1)
  })

  it("count the addresses of one IPv6 network as one, and each IPv4 address by itself", () => {
    for (const same of ["2001:db8:0:1:ffff::1", "2001:db8::1:0:0:0:2", "2001:db8:0:1::%eth0"]) {
      assert.strictEqual(networkOf(same), networkOf("2001:db8:0:1::"), same)
    }
    const others = ["2001:db8:0:2::", "::1", "127.0.0.1", "127.0.0.2", "::ffff:127.0.0.1", "::ffff:127.0.0.2"]
    assert.strictEqual(new Set(["2001:db8:0:1::", ...others].map(networkOf)).size, others.length + 1)
  })

  it.effect(
    "fail for all waiting tokens when the database does not answer, and succeed again afterwards",
    function* () {
      const { invent, isFound, table } = yield* open
      yield* invent(20)
      yield* Effect.yieldNow
      table.available = false
      const waiting = yield* Effect.forkChild(Effect.exit(isFound(valid)))
      yield* TestClock.adjust(Duration.millis(50))
      assert.strictEqual((yield* Fiber.join(waiting))._tag, "Failure")
      table.available = true
      const again = yield* Effect.forkChild(isFound(valid))
      yield* TestClock.adjust(Duration.millis(50))
      assert.isTrue(yield* Fiber.join(again))
    }
  )
})

const get = (token: string) =>
  `GET /api/v1/developer/crm/clients HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${token}\r\n\r\n`

const invented = Effect.map(generate(Option.none()), ({ token }) => get(Redacted.value(token)))

/** More requests than may wait for a read, and the connections over which they are sent. */
const [requests, connections] = [6_000, 60]

/** Opens a connection to a server from an address of this host. */
const connectFrom = (url: string, localAddress: string) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const { hostname, port } = new URL(url)
      const socket = connect({ host: hostname, port: Number(port), localAddress }).setEncoding("latin1")
      socket.on("error", () => {})
      await once(socket, "connect")
      return socket
    }),
    (socket) => Effect.sync(() => socket.destroy())
  )

/** Returns the HTTP version and status of the first answer. */
const statusOf = (socket: Socket) =>
  Effect.promise(() => once(socket, "data").then(([text]) => String(text).slice(0, 12)))

layer(TestServer.layer(), { excludeTestServices: true })("a flood of invented tokens from one address", (it) => {
  it.effect("does not refuse the new token of a caller from another", function* () {
    const server = yield* TestServer
    const { token } = yield* server.seed()
    const flood = yield* Effect.replicateEffect(invented, requests)
    const attackers = yield* Effect.replicateEffect(connectFrom(server.url, "127.0.0.2"), connections)
    const caller = yield* connectFrom(server.url, "127.0.0.3")
    const share = requests / connections
    for (const [n, socket] of attackers.entries()) socket.write(flood.slice(n * share, (n + 1) * share).join(""))
    caller.write(get(token))
    const [first] = attackers
    assert.match(yield* statusOf(first ?? assert.fail()), /^HTTP\/1.1 (401|503)$/)
    assert.strictEqual(yield* statusOf(caller), "HTTP/1.1 200")
  })
})
