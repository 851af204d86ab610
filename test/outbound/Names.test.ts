import { assert, describe, it } from "../support/Vitest.ts"
import { Duration, Effect, Exit, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { createSocket } from "node:dgram"
import { cacheAddresses, NameUnresolved, resolveName } from "../../src/outbound/Connections.ts"

/** An answer of a DNS server: addresses, no such name, a failure, or none. */
type Answer = ReadonlyArray<string> | "NXDOMAIN" | "SERVFAIL" | "silence"

/** Starts a DNS server on loopback (RFC 1035, section 4) that records its queries. */
const dns = (answer: (name: string, family: "A" | "AAAA") => Answer) =>
  Effect.acquireRelease(
    Effect.callback<{ readonly server: string; readonly queries: ReadonlyArray<string>; readonly close: () => void }>(
      (resume) => {
        const socket = createSocket("udp4")
        const queries: Array<string> = []
        socket.on("message", (query, from) => {
          const labels: Array<string> = []
          let at = 12
          for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
            labels.push(query.toString("latin1", at + 1, at + 1 + length))
            at += 1 + length
          }
          const question = query.subarray(12, at + 5)
          const family = query.readUInt16BE(at + 1) === 28 ? "AAAA" : "A"
          const name = labels.join(".").toLowerCase()
          queries.push(`${family} ${name}`)
          const found = answer(name, family)
          if (found === "silence") return
          const code = found === "NXDOMAIN" ? 3 : found === "SERVFAIL" ? 2 : 0
          const records = typeof found === "string" ? [] : found.map((address) => record(family, address))
          const head = Buffer.alloc(12)
          query.copy(head, 0, 0, 2)
          head.writeUInt16BE(0x8180 | code, 2)
          head.writeUInt16BE(1, 4)
          head.writeUInt16BE(records.length, 6)
          socket.send(Buffer.concat([head, question, ...records]), from.port, from.address)
        })
        socket.bind(0, "127.0.0.1", () =>
          resume(Effect.succeed({ server: `127.0.0.1:${socket.address().port}`, queries, close: () => socket.close() }))
        )
      }
    ),
    ({ close }) => Effect.sync(close)
  )

/** Returns a record for the name in the question; an IPv6 address is given as 32 hex digits. */
const record = (family: "A" | "AAAA", address: string) => {
  const bytes =
    family === "A" ? Buffer.from(address.split(".").map(Number)) : Buffer.from(address.replaceAll(":", ""), "hex")
  const fixed = Buffer.from([0xc0, 12, 0, family === "A" ? 1 : 28, 0, 1, 0, 0, 0, 60, 0, bytes.length])
  return Buffer.concat([fixed, bytes])
}

const resolve = (server: string, name: string) => resolveName([server])(name)

const code = (server: string, name: string) => Effect.map(Effect.flip(resolve(server, name)), ({ code }) => code)

const ipv6 = "20010db8000000000000000000000001"

describe("a host name", () => {
  it.live("resolves to all its addresses, IPv4 first", function* () {
    const { server } = yield* dns((_, family) => (family === "A" ? ["192.0.2.1", "192.0.2.2"] : [ipv6]))
    assert.deepStrictEqual(yield* resolve(server, "hooks.test"), ["192.0.2.1", "192.0.2.2", "2001:db8::1"])
    assert.deepStrictEqual(yield* resolve(server, "hooks.test."), ["192.0.2.1", "192.0.2.2", "2001:db8::1"])
  })

  it.live("resolves with one address family when the other gives no answer", function* () {
    const cases = ([[], "NXDOMAIN", "SERVFAIL", "silence"] as const).flatMap((other) => [
      ["A", "192.0.2.1", "192.0.2.1", other] as const,
      ["AAAA", ipv6, "2001:db8::1", other] as const
    ])
    // At once, as silence lasts for seconds.
    const resolves = Effect.fnUntraced(function* ([mine, address, shown, other]: (typeof cases)[number]) {
      const { server } = yield* dns((_, family) => (family === mine ? [address] : other))
      assert.deepStrictEqual(yield* resolve(server, "hooks.test"), [shown])
    })
    yield* Effect.forEach(cases, resolves, { concurrency: "unbounded" })
  })

  it.live("is not found when it does not exist, and a failure of the server is another error", function* () {
    const none = yield* dns(() => "NXDOMAIN")
    assert.strictEqual(yield* code(none.server, "nobody.invalid"), "ENOTFOUND")
    const empty = yield* dns(() => [])
    assert.strictEqual(yield* code(empty.server, "nobody.invalid"), "ENOTFOUND")
    const broken = yield* dns((_, family) => (family === "A" ? "SERVFAIL" : "NXDOMAIN"))
    assert.strictEqual(yield* code(broken.server, "nobody.invalid"), "ESERVFAIL")
  })

  it.live("that is localhost, or an address, resolves without DNS", function* () {
    const { queries, server } = yield* dns(() => ["192.0.2.1"])
    assert.include(yield* resolve(server, "LOCALHOST"), "127.0.0.1")
    assert.include(yield* resolve(server, "localhost."), "127.0.0.1")
    assert.deepStrictEqual(yield* resolve(server, "192.0.2.7"), ["192.0.2.7"])
    assert.deepStrictEqual(yield* resolve(server, "2001:db8::1"), ["2001:db8::1"])
    assert.deepStrictEqual(queries, [])
  })

  it.live("delays no other when its server hangs, and is abandoned with its query", function* () {
    const { queries, server } = yield* dns((name) => (name.startsWith("hang") ? "silence" : ["192.0.2.1"]))
    const hanging = yield* Effect.forEach(
      Array.from({ length: 200 }, (_, i) => `hang${i}.test`),
      (name) => Effect.forkChild(resolve(server, name))
    )
    const [duration] = yield* Effect.timed(resolve(server, "hooks.test"))
    assert.isBelow(Duration.toMillis(duration), 1_000)
    yield* Fiber.interruptAll(hanging)
    // Queries that are on their way arrive. A query that was not abandoned would be sent again after 1 s.
    yield* Effect.sleep("500 millis")
    const before = queries.length
    yield* Effect.sleep("1500 millis")
    assert.strictEqual(queries.length, before)
  })

  it.live(
    "fails after a timeout without an answer",
    function* () {
      const { server } = yield* dns(() => "silence")
      assert.strictEqual(yield* code(server, "hang.test"), "ETIMEOUT")
    },
    20_000
  )
})

describe("a DNS answer", () => {
  const counting = (answer: Effect.Effect<ReadonlyArray<string>, NameUnresolved>) => {
    const queries: Array<string> = []
    const resolve = cacheAddresses((name) => {
      queries.push(name)
      return answer
    })
    return { queries, resolve }
  }

  it.effect("is cached for five seconds", function* () {
    const { queries, resolve } = counting(Effect.succeed(["192.0.2.1"]))
    const names = yield* resolve
    yield* names("a.test")
    yield* TestClock.adjust("4999 millis")
    assert.deepStrictEqual(yield* names("a.test"), ["192.0.2.1"])
    yield* names("b.test")
    assert.deepStrictEqual(queries, ["a.test", "b.test"])
    yield* TestClock.adjust("1 millis")
    yield* names("a.test")
    assert.deepStrictEqual(queries, ["a.test", "b.test", "a.test"])
  })

  it.effect("is cached for no longer when the clock is set back", function* () {
    yield* TestClock.setTime(7_200_000)
    const { queries, resolve } = counting(Effect.succeed(["192.0.2.1"]))
    const names = yield* resolve
    yield* names("a.test")
    yield* TestClock.setTime(3_600_000)
    yield* TestClock.adjust("5 seconds")
    yield* names("a.test")
    assert.deepStrictEqual(queries, ["a.test", "a.test"])
  })

  it.effect("is not cached when it is a failure", function* () {
    const { queries, resolve } = counting(Effect.fail(new NameUnresolved({ code: "ENOTFOUND" })))
    const names = yield* resolve
    for (let i = 0; i < 3; i++) assert.isTrue(Exit.isFailure(yield* Effect.exit(names("a.test"))))
    assert.strictEqual(queries.length, 3)
  })

  it.effect("is shared by concurrent queries, and the query ends with the last of them", function* () {
    let dropped = 0
    const { queries, resolve } = counting(
      Effect.onInterrupt(Effect.as(Effect.sleep("1 second"), ["192.0.2.1"]), () =>
        Effect.sync(() => {
          dropped++
        })
      )
    )
    const names = yield* resolve
    const [first, second, third] = [
      yield* Effect.forkChild(names("a.test")),
      yield* Effect.forkChild(names("a.test")),
      yield* Effect.forkChild(names("b.test"))
    ]
    yield* TestClock.adjust("500 millis")
    yield* Fiber.interrupt(first)
    yield* Fiber.interrupt(third)
    assert.strictEqual(dropped, 1)
    yield* TestClock.adjust("500 millis")
    assert.deepStrictEqual(yield* Fiber.join(second), ["192.0.2.1"])
    assert.deepStrictEqual(queries, ["a.test", "b.test"])
  })
})
