/** Answers that callers do not read (contract §1): their bytes are bounded, and the oldest connections end first. */
import { assert, layer } from "../../support/Vitest.ts"
import { Effect } from "effect"
import { connect, type Socket } from "node:net"
import { setTimeout as sleep } from "node:timers/promises"
import { TestServer } from "../../support/TestServer.ts"

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
