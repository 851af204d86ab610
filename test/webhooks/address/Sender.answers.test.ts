import { assert, describe, providing } from "../../support/Vitest.ts"
import { Duration, Effect, Option } from "effect"
import { answering, answerOf, endless, endpoint, type Endpoint, pouring } from "../../support/Endpoints.ts"
import type { AttemptOutcome } from "../../../src/webhooks/address/Sender.ts"
import { resultOf, send, sender } from "./Sender.support.ts"
import { until } from "../../support/Waiting.ts"

const test = providing(sender())

const url = ({ port }: Endpoint, path = "/") => `http://hooks.test:${port}${path}`

const drip = (bytes: string) => (socket: { readonly write: (text: string) => void; readonly destroyed: boolean }) => {
  let at = 0
  const timer = setInterval(() => {
    if (socket.destroyed) clearInterval(timer)
    else socket.write(bytes[at++ % bytes.length] ?? "")
  }, 20)
}

describe("a delivery's request", () => {
  test("has the exact body with a content-length, and asks for an uncompressed answer", function* () {
    const hook = yield* answering(answerOf(200))
    const body = Buffer.from([0, 1, 0xff, 0x0d, 0x0a])
    const headers = { "webhook-id": "dlv_1", "user-agent": "developer-api/1", "accept-encoding": "gzip" }
    const outcome = yield* send(url(hook, "/a%20b/ü?x=1&y="), { body, headers })
    assert.deepStrictEqual(outcome, { _tag: "answered", status: 200, retryAfter: Option.none(), body: null })
    const [head = "", sent] = hook.received[0]?.text.split("\r\n\r\n") ?? []
    const [line, ...fields] = head.split("\r\n").map((line, i) => (i === 0 ? line : line.toLowerCase()))
    assert.strictEqual(line, "POST /a%20b/%C3%BC?x=1&y= HTTP/1.1")
    assert.deepStrictEqual(fields.sort(), [
      "accept-encoding: identity",
      "connection: keep-alive",
      "content-length: 5",
      `host: hooks.test:${hook.port}`,
      "user-agent: developer-api/1",
      "webhook-id: dlv_1"
    ])
    assert.strictEqual(sent, body.toString("latin1"))
  })

  test("has the answer's status as its outcome, and follows no redirect", function* () {
    const other = yield* answering(answerOf(200))
    for (const status of [200, 202, 299, 301, 302, 307, 308, 400, 401, 404, 410, 418, 429, 500, 503, 599, 999]) {
      const hook = yield* answering(answerOf(status, `location: ${url(other)}`))
      assert.strictEqual(resultOf(yield* send(url(hook))), status)
    }
    assert.strictEqual(other.connections(), 0)
  })

  test("is completed by answers without a body, in HTTP/1.0, in chunks, or after interim answers", function* () {
    const answers = [
      ["HTTP/1.1 204 No Content", "", ""],
      ["HTTP/1.1 304 Not Modified", "content-length: 1000", "", ""],
      ["HTTP/1.1 200 OK", "content-length: 0", "", ""],
      ["HTTP/1.1 200", "transfer-encoding: chunked", "trailer: x", "", "2", "ok", "0", "x: y", "", ""],
      [...Array.from({ length: 3 }, () => "HTTP/1.1 103 Early Hints\r\nlink: x\r\n"), answerOf(201)]
    ]
    const outcomes = []
    for (const answer of answers) outcomes.push(resultOf(yield* send(url(yield* answering(...answer)))))
    assert.deepStrictEqual(outcomes, [204, 304, 200, 200, 201])
    for (const answer of [
      "HTTP/1.0 200 OK\r\n\r\nuntil the end",
      "HTTP/1.1 200 OK\r\n\r\n",
      "HTTP/1.0 200 OK\r\n\r\n"
    ]) {
      const hook = yield* endpoint(({ socket }) => socket.end(answer))
      assert.strictEqual(resultOf(yield* send(url(hook))), 200)
    }
  })

  test("returns Retry-After in seconds or as an HTTP date of any of the three forms", function* () {
    const after = (value: string) =>
      Effect.gen(function* () {
        const outcome = yield* send(url(yield* answering(answerOf(503, `retry-after: ${value}`))))
        return outcome._tag === "answered" ? Option.map(outcome.retryAfter, Duration.toSeconds) : Option.some(-1)
      })
    assert.deepStrictEqual(yield* after("120"), Option.some(120))
    assert.deepStrictEqual(yield* after("0"), Option.some(0))
    const date = new Date(Date.now() + 3_600_000)
    const [day = "", dayOfMonth = "", month = "", year = "", time = ""] = date.toUTCString().split(" ")
    const longDay = date.toLocaleDateString("en", { weekday: "long", timeZone: "UTC" })
    const forms = [
      date.toUTCString(),
      `${longDay}, ${dayOfMonth}-${month}-${year.slice(2)} ${time} GMT`,
      `${day.slice(0, 3)} ${month} ${dayOfMonth.replace(/^0/, " ")} ${time} ${year}`
    ]
    for (const form of forms) {
      const seconds = Number(Option.getOrThrow(yield* after(form)))
      assert.isTrue(seconds > 3_570 && seconds <= 3_600, `${form} ${seconds}`)
    }
    assert.deepStrictEqual(yield* after("Sun, 06 Nov 1994 08:49:37 GMT"), Option.some(0))
    for (const garbage of ["-5", "1.5", "soon", "", "2030-01-01", "Sun, 31 Feb 2027 00:00:00 GMT", "5, 6"]) {
      assert.isTrue(Option.isNone(yield* after(garbage)), garbage)
    }
  })
})

describe("an endpoint's answer", () => {
  test("is cut off at its limit and counts", function* () {
    const huge = yield* answering("HTTP/1.1 202 OK", "content-length: 99999999", "", "x".repeat(16_384))
    assert.strictEqual(resultOf(yield* send(url(huge))), 202)
    yield* until(() => huge.closed() === 1)
  })

  providing(sender({ timeout: "8 seconds" }))(
    "without an end is read no further than its bound, whatever it consists of",
    function* () {
      for (const [what, beginning, again] of endless) {
        const hook = yield* pouring(beginning, again)
        const before = process.memoryUsage().arrayBuffers
        let peak = 0
        const watch = setInterval(() => (peak = Math.max(peak, process.memoryUsage().arrayBuffers - before)), 5)
        const [took, outcomes] = yield* Effect.timed(
          Effect.forEach([1, 2, 3, 4], () => send(url(hook)), { concurrency: "unbounded" })
        ).pipe(Effect.ensuring(Effect.sync(() => clearInterval(watch))))
        // What was an answer until then counts, as with a body that is too long.
        for (const outcome of outcomes) assert.include([200, "invalid_response"], resultOf(outcome), what)
        assert.isBelow(Duration.toMillis(took), 7_000, what)
        assert.isBelow(peak / 2 ** 20, 32, what)
        yield* until(() => hook.closed() === 4)
      }
    },
    90_000
  )

  test("from an allowed network is not kept", function* () {
    const hook = yield* answering(answerOf(500))
    const outcome = yield* send(url(hook))
    assert.deepStrictEqual(outcome, { _tag: "answered", status: 500, retryAfter: Option.none(), body: null })
  })

  providing(sender({ keepAllowedAnswers: true }))(
    "that is a failure is kept as text of at most 1,024 bytes without secrets",
    function* () {
      const secret = `whsec_${"A".repeat(44)}`
      const code = "B".repeat(43)
      const texts: ReadonlyArray<readonly [body: string | Uint8Array, text: string | null]> = [
        ["", null],
        ["no such order", "no such order"],
        ["x".repeat(1_024), "x".repeat(1_024)],
        ["x".repeat(20_000), "x".repeat(1_024)],
        [`${"x".repeat(1_023)}ü`, "x".repeat(1_023)],
        [`${"x".repeat(1_021)}😀`, "x".repeat(1_021)],
        [`${"x".repeat(1_022)}ü`, `${"x".repeat(1_022)}ü`],
        [Buffer.from([0x61, 0xff, 0x00, 0x62, 0xc3]), "a\uFFFD\uFFFDb\uFFFD"],
        [`key ${secret} refused ${"x".repeat(2_000)}`, `key whsec_[redacted] refused ${"x".repeat(961)}`],
        [`${"x".repeat(1_010)} ${secret}`, `${"x".repeat(1_010)} whsec_[redacted]`],
        [`${"x".repeat(1_010)} dk_${"C".repeat(40)}`, `${"x".repeat(1_010)} dk_[redacted]`],
        [`${"x".repeat(1_010)} code=${code}`, `${"x".repeat(1_010)} code=`]
      ]
      for (const status of [200, 302, 500]) {
        for (const [body, text] of texts) {
          const hook = yield* endpoint(({ socket }) => {
            socket.write(`HTTP/1.1 ${status} Some\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n`)
            socket.write(body)
          })
          const outcome = yield* send(url(hook))
          const kept = status === 200 ? null : text
          const expected: AttemptOutcome = { _tag: "answered", status, retryAfter: Option.none(), body: kept }
          assert.deepStrictEqual(outcome, expected)
        }
      }
    }
  )

  test("counts when it is complete, whatever follows", function* () {
    for (const [status, answer] of [
      [200, `${answerOf(200)} and more`],
      [201, `${answerOf(201)}${answerOf(500)}`],
      [204, "HTTP/1.1 204 No Content\r\n\r\nand yet a body"]
    ] as const) {
      const hook = yield* answering(answer)
      assert.strictEqual(resultOf(yield* send(url(hook))), status)
      yield* until(() => hook.closed() === 1)
    }
  })

  test("counts immediately when it precedes the end of the request, and ends the connection", function* () {
    const silent = yield* endpoint(() => {}, {
      connected: (socket) => {
        socket.once("data", () => {
          socket.pause()
          socket.write(answerOf(413))
        })
      }
    })
    assert.strictEqual(resultOf(yield* send(url(silent), { body: Buffer.alloc(64 * 1024 * 1024) })), 413)
    const again = yield* send(url(silent))
    assert.strictEqual(resultOf(again), 413)
    assert.strictEqual(silent.connections(), 2)
  })

  test("that ends early is connection_lost", function* () {
    const broken = [
      "",
      "HTTP/1.1 200 OK\r\ncontent-",
      "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort",
      "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nshort",
      "HTTP/1.1 103 Early Hints\r\n\r\n"
    ]
    for (const text of broken) {
      for (const cut of ["end", "resetAndDestroy"] as const) {
        const hook = yield* endpoint(({ socket }) => socket.write(text, () => socket[cut]()))
        assert.strictEqual(resultOf(yield* send(url(hook))), "connection_lost", `${text} ${cut}`)
        assert.strictEqual(hook.connections(), 1)
      }
    }
  })

  test("that is not HTTP, has an ambiguous length or endless headers is invalid", function* () {
    const invalid = [
      "SSH-2.0-OpenSSH_9.9\r\n",
      "HTTP/9.9 200 OK\r\n\r\n",
      "HTTP/1.1 20 OK\r\n\r\n",
      "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
      "HTTP/1.1 200 OK\r\ncontent-length: ten\r\n\r\n",
      "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nok",
      "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
      "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
      "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
      `HTTP/1.1 200 OK\r\n${"x: y\r\n".repeat(10_000)}`,
      `HTTP/1.1 200 OK\r\nx: ${"y".repeat(20_000)}`,
      `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n${"x: y\r\n".repeat(10_000)}`,
      "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
      // No request asks for it.
      "HTTP/1.1 100 Continue\r\n\r\n",
      `${"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(4)}${answerOf(200)}`
    ]
    for (const text of invalid) {
      const hook = yield* answering(text)
      assert.strictEqual(resultOf(yield* send(url(hook))), "invalid_response", text.slice(0, 80))
      yield* until(() => hook.closed() === 1)
    }
  })

  providing(sender({ timeout: "300 millis" }))("has one deadline for all of its parts", function* () {
    const slow = [
      yield* endpoint(() => {}),
      yield* endpoint(({ socket }) => drip("HTTP/1.1 200 OK\r\n")(socket)),
      yield* endpoint(({ socket }) => {
        socket.write("HTTP/1.1 200 OK\r\ncontent-length: 16000\r\n\r\n")
        drip("x")(socket)
      }),
      yield* endpoint(({ socket }) => {
        socket.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        drip("1\r\nx\r\n")(socket)
      }),
      yield* endpoint(({ socket }) => drip("HTTP/1.1 103 Early Hints\r\n\r\n")(socket))
    ]
    const [duration, outcomes] = yield* Effect.timed(
      Effect.forEach(slow, (hook) => send(url(hook)), { concurrency: "unbounded" })
    )
    assert.isTrue(outcomes.every((outcome) => resultOf(outcome) === "timeout"))
    assert.isTrue(Duration.toMillis(duration) >= 300 && Duration.toMillis(duration) < 5_000)
    yield* until(() => slow.every((hook) => hook.closed() === hook.connections()))
  })
})
