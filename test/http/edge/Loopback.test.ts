import { assert, it, layer } from "../../support/Vitest.ts"
import { Effect } from "effect"
import { isOneOf } from "../../../src/http/edge/AdminAddress.ts"
import { Answer, Unread } from "../../../src/http/edge/InFlight.ts"
import { codeOf, problemOf } from "../../support/ContractAnswers.ts"
import { send } from "../../support/ContractHttp.ts"
import { freePort } from "../../support/Process.ts"
import { startServer, TestServer } from "../../support/TestServer.ts"
import { IncomingMessage } from "node:http"
import { connect, Socket } from "node:net"
import { setTimeout as sleep } from "node:timers/promises"

const own = [
  "localhost",
  "LOCALHOST:1",
  "a.localhost:80",
  "localhost.",
  "127.0.0.1",
  "127.9.8.7:9090",
  "[::1]",
  "[::1]:1"
]
const foreign = [
  "evil.example",
  "evil.example:9090",
  "localhost.evil.example",
  "evillocalhost",
  "127.0.0.1.evil.example",
  "10.0.0.1",
  "0.0.0.0",
  "0x7f.1",
  "2130706433",
  "[::]",
  "[::2]",
  "::1",
  "[::1",
  "user@localhost",
  "localhost:a"
]

const start = Effect.fnUntraced(function* (environment: Readonly<Record<string, string>>) {
  const port = yield* Effect.promise(freePort)
  yield* startServer({ ...environment, ADMIN_PORT: String(port) }, "api")
  return (host: string, path: string) => send(`http://127.0.0.1:${port}`, { path, headers: { host } })
})

it.live("an admin server on the loopback answers requests to the loopback alone", function* () {
  const ask = yield* start({})
  for (const [path, status] of [
    ["/metrics", 200],
    ["/console", 401],
    ["/nothing", 404]
  ] as const) {
    for (const host of own) assert.strictEqual((yield* ask(host, path)).status, status, host)
    for (const host of foreign) {
      const answer = yield* ask(host, path)
      assert.strictEqual(codeOf(answer), "misdirected_request", `${host} ${answer.text}`)
      problemOf(answer, 421, "misdirected_request")
    }
  }
  assert.strictEqual((yield* ask("localhost", "http://evil.example/metrics")).status, 421)
  assert.strictEqual((yield* ask("evil.example", "http://localhost/metrics")).status, 200)
})

it.live(
  "an admin server on every address answers requests to the loopback and to the names that are allowed",
  function* () {
    const ask = yield* start({ ADMIN_HOST: "0.0.0.0", ADMIN_ALLOWED_HOSTS: "admin.example.com, metrics, fd00::1" })
    const allowed = ["admin.example.com", "Admin.Example.com:9090", "metrics:1", "0.0.0.0:9090", "[FD00::1]:9090"]
    for (const host of [...own, ...allowed]) assert.strictEqual((yield* ask(host, "/metrics")).status, 200, host)
    for (const host of [...foreign, "a.admin.example.com", "[metrics]", "fd00::1", "[fd00::2]"]) {
      assert.strictEqual((yield* ask(host, "/metrics")).status, allowed.includes(`${host}:9090`) ? 200 : 421, host)
    }
  }
)

it("an admin server answers by its own address, also if that is of IPv6 or has a capital letter", () => {
  const isOwn = (host: string) => isOneOf(host, ["FD00::1", "Admin.Example.com"])
  assert.deepStrictEqual(
    [
      "[fd00::1]:9090",
      "[FD00::1]",
      "admin.example.com:9090",
      "ADMIN.example.com",
      "fd00::1",
      "[fd00::2]",
      "[fd00::1"
    ].map(isOwn),
    [true, true, true, true, false, false, false]
  )
})

const mebibyte = 1024 * 1024

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("answers that callers do not read", (it) => {
  it.effect("wait up to 32 MiB for those without a token, the newest of them, while others are answered", function* () {
    const { send, url } = yield* TestServer
    const { hostname, port } = new URL(url)
    const path = "/docs/viewer.js"
    const size = Buffer.byteLength((yield* send({ path })).text)
    const each = Math.ceil((12 * mebibyte) / size)
    const asked = `GET ${path} HTTP/1.1\r\nhost: a\r\n\r\n`.repeat(each)
    const stalled: Array<Socket> = []
    yield* Effect.addFinalizer(() => Effect.sync(() => stalled.forEach((socket) => socket.destroy())))
    for (let n = 0; n < 8; n++) {
      const socket = connect({ host: hostname, port: Number(port) })
        .pause()
        .on("error", () => socket.destroy())
      socket.write(asked)
      stalled.push(socket)
      yield* Effect.promise(() => sleep(200))
    }
    assert.strictEqual((yield* send({ path: "/healthz" })).status, 200)
    const received = yield* Effect.forEach(
      stalled,
      (socket) =>
        Effect.callback<number>((resume) => {
          let bytes = 0
          const done = () => resume(Effect.succeed(bytes))
          socket.on("data", (chunk) => {
            bytes += chunk.length
            if (bytes >= each * size) done()
          })
          socket.on("close", done).resume()
        }),
      { concurrency: "unbounded" }
    )
    const isWhole = received.map((bytes) => bytes >= each * size)
    assert.isFalse(isWhole[0])
    assert.isTrue(isWhole.at(-1))
    const waiting = isWhole.filter((whole) => whole).length * each * size
    assert.isAtMost(waiting, 32 * mebibyte + 8 * mebibyte)
  })
})

it.effect(
  "the unread answers of all projects wait up to 128 MiB, and the connection ends first that waits longest",
  () =>
    Effect.gen(function* () {
      const unread = yield* Unread
      const sockets = ["a", "b", "c", "d", "e"].map((project) => {
        const socket = new Socket()
        unread.connect(socket)
        unread.add(new Answer(new IncomingMessage(socket)), 30 * mebibyte, project)
        return socket
      })
      assert.deepStrictEqual(
        sockets.map(({ destroyed }) => destroyed),
        [true, false, false, false, false]
      )
    }).pipe(Effect.provide(Unread.layer))
)
