/**
 * Connections that occupy a service (contract §1): thousands that are idle, and requests that arrive slowly. `CONNECTIONS`
 * is the number of idle connections.
 */
import { assert } from "@effect/vitest"
import { once } from "node:events"
import { connect, type Socket } from "node:net"
import { setTimeout as sleep } from "node:timers/promises"
import { describe, it } from "vitest"
import { defer } from "../support/Finalizers.ts"
import { quantile } from "../bench/Figures.ts"
import { residentMebibytes, type Service, spawn, startService } from "../support/Process.ts"
import { eventually } from "../support/Waiting.ts"
import { connectionsUpTo, load, request } from "./Load.support.ts"
import { database, project, serviceEnv, unlimited } from "./Projects.support.ts"
import { clients, createClient, listClients, stream } from "./Requests.support.ts"

const idleConnections = connectionsUpTo(Number(process.env["CONNECTIONS"] ?? 4_000))

const healthy = "GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n"

const databaseUrl = await database()
const token = await project(databaseUrl, { project: { rateLimits: unlimited } })

/** Opens a connection and records everything that is received on it. */
const dial = async ({ url }: Pick<Service, "url">) => {
  const { hostname, port } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port) })
  defer(() => socket.destroy())
  const opened: { readonly socket: Socket; received: string; ended: boolean } = { socket, received: "", ended: false }
  socket.setEncoding("latin1").on("data", (text: string) => (opened.received += text))
  socket.on("error", () => socket.destroy()).on("close", () => (opened.ended = true))
  await once(socket, "connect")
  return opened
}
type Opened = Awaited<ReturnType<typeof dial>>

const start = async () => {
  const service = await startService({ env: serviceEnv(databaseUrl) })
  assert.strictEqual((await listClients(service.url, token)).status, 200)
  return service
}

describe("a service with requests that arrive slowly", () => {
  it("ends them with 408 within their time; answers others meanwhile, and keeps connections between requests", async () => {
    const service = await start()
    const head = request("POST", clients, token, "slow-body-1", { displayName: "Slow" })
    const [complete = ""] = head.split("\r\n\r\n")
    const slow: Record<string, { readonly first: string; readonly drip: string }> = {
      "a header section that never ends": { first: "GET / HTTP/1.1\r\nhost: a\r\n", drip: "x-slow: 1\r\n" },
      "a request line that never ends": { first: "GET /", drip: "x" },
      "no byte at all": { first: "", drip: "" },
      "a body that never ends": {
        first: `${complete.replace(/content-length: \d+/, "content-length: 2000")}\r\n\r\n{"displayName":"`,
        drip: "x"
      },
      "chunks that never end": {
        first: `${complete.replace(/content-length: \d+/, "transfer-encoding: chunked")}\r\n\r\n`,
        drip: "1\r\nx\r\n"
      }
    }
    const connections: Array<readonly [string, Opened]> = []
    for (const [name, { drip, first }] of Object.entries(slow)) {
      for (let n = 0; n < 20; n++) {
        const opened = await dial(service)
        if (first !== "") opened.socket.write(first)
        const timer = setInterval(() => drip !== "" && !opened.ended && opened.socket.write(drip), 500)
        defer(() => clearInterval(timer))
        connections.push([name, opened])
      }
    }
    // Between two requests a connection may be idle longer than that.
    const kept = await dial(service)
    const ask = async (times: number) => {
      kept.socket.write(healthy)
      await eventually(() => assert.strictEqual(kept.received.split("HTTP/1.1 200 ").length - 1, times))
    }
    await ask(1)
    const others = stream(4, (n) => createClient(service.url, token, `beside-slow-${n}`, "Quick"), 250)
    await eventually(() => assert.isTrue(connections.every(([, { ended }]) => ended)))
    await others.stop()
    assert.deepStrictEqual([others.kinds(), others.failures], [["201"], []])
    assert.isBelow(Math.max(...others.answers.map(({ millis }) => millis)), 5_000)
    for (const [name, { received }] of connections) {
      assert.match(received, /^HTTP\/1\.1 408 Request Timeout\r\n/, name)
      assert.match(received, /^content-type: application\/problem\+json\r$/im, name)
      assert.match(received, /"code":"request_timeout"/, name)
      assert.match(received, /^x-request-id: [\w-]+\r$/im, name)
    }
    await ask(2)
  })
})

describe("a service with few file descriptors", () => {
  it("ends idle connections for new ones, and keeps descriptors for the database", async () => {
    const command = 'ulimit -n 400 && exec "$0" src/main.ts'
    const running = spawn("sh", ["-c", command, process.execPath], { PORT: "0", ...serviceEnv(databaseUrl) })
    const [, url = ""] = await running.prints(/^listening on (http:\/\/\S+)$/m)
    const service = { ...running, url }
    const idle: Array<Opened> = []
    for (let n = 0; n < 300; n++) {
      const opened = await dial(service)
      opened.socket.write(healthy)
      idle.push(opened)
      await sleep(5)
    }
    await eventually(() => assert.isAbove(idle.filter(({ ended }) => ended).length, 200))
    // Few have never been answered: those that came while all others were busy.
    assert.isAbove(idle.filter(({ received }) => received.startsWith("HTTP/1.1 200 ")).length, 250)
    const creates = await Promise.all(
      Array.from({ length: 20 }, (_, n) => createClient(url, token, `few-descriptors-${n}`, "Few"))
    )
    assert.deepStrictEqual([...new Set(creates.map(({ status }) => status))], [201])
    assert.notInclude(running.stderr() + running.stdout(), "EMFILE")
  })
})

describe("a service with thousands of idle connections", () => {
  it("answers others as before, and holds at most 32 KiB for each", async () => {
    const service = await start()
    const work = (seconds: number) =>
      load({
        url: service.url,
        nextRequest: () => ({ name: "list", bytes: request("GET", `${clients}?limit=1`, token) }),
        seconds,
        rate: 400,
        connections: 16
      })
    await work(2)
    const before = residentMebibytes(service.pid)
    const idle: Array<Opened> = []
    for (let n = 0; n < idleConnections; n += 100) {
      const some = await Promise.all(Array.from({ length: 100 }, () => dial(service)))
      for (const { socket } of some) socket.write(healthy)
      idle.push(...some)
    }
    await eventually(() => assert.isTrue(idle.every(({ received }) => received.startsWith("HTTP/1.1 200 "))))
    const { answers, lost, sent } = await work(3)
    const held = residentMebibytes(service.pid) - before
    assert.deepStrictEqual([[...answers.keys()], lost], [["list 200"], 0])
    assert.isTrue(idle.every(({ ended }) => !ended))
    const millis = answers.get("list 200")?.millis ?? []
    console.log(
      `${idle.length} idle connections hold ${held.toFixed(0)} MiB; beside them ${sent} lists in 3 s, p99 ${quantile(millis, 0.99).toFixed(1)} ms`
    )
    assert.isBelow((held * 1024) / idle.length, 32)
    for (const { socket } of idle) socket.destroy()
    await sleep(0)
    assert.strictEqual((await listClients(service.url, token)).status, 200)
  })
})
