/** Invented tokens over HTTP: one address does not use up the reads that another one needs (contract §3). */
import { assert, layer } from "../../../support/Vitest.ts"
import { Effect, Option, Redacted } from "effect"
import { once } from "node:events"
import { connect, type Socket } from "node:net"
import { generate } from "../../../../src/platform/requests/auth/Token.ts"
import { TestServer } from "../../../support/TestServer.ts"

const get = (token: string) =>
  `GET /api/v1/developer/crm/clients HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${token}\r\n\r\n`

const invented = Effect.map(generate(Option.none()), ({ token }) => get(Redacted.value(token)))

/** More requests than may wait for a read, and the connections over which they are sent. */
const [requests, connections] = [6_000, 60]

/** Opens a connection to a server from an address of this host. */
const open = (url: string, localAddress: string) =>
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
    const attackers = yield* Effect.replicateEffect(open(server.url, "127.0.0.2"), connections)
    const caller = yield* open(server.url, "127.0.0.3")
    const share = requests / connections
    for (const [n, socket] of attackers.entries()) socket.write(flood.slice(n * share, (n + 1) * share).join(""))
    caller.write(get(token))
    const [first] = attackers
    assert.match(yield* statusOf(first ?? assert.fail()), /^HTTP\/1.1 (401|503)$/)
    assert.strictEqual(yield* statusOf(caller), "HTTP/1.1 200")
  })
})
