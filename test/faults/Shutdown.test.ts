/** How the service ends, and what it leaves behind (contract §15). */
import { Agent } from "node:http"
import * as Net from "node:net"
import { setTimeout as sleep } from "node:timers/promises"
import { beforeAll, describe, expect, it } from "vitest"
import { defer } from "../support/Finalizers.ts"
import {
  ended,
  eventually,
  groupOf,
  inGoodOrder,
  isRunning,
  postmasterOf,
  type Service,
  startService,
  temporaryDirectory
} from "../support/Process.ts"
import { database, project, serviceEnv, session } from "./Projects.support.ts"
import {
  type Answer,
  bearer,
  type Call,
  clients,
  createClient,
  expectProblem,
  listClients,
  open,
  send
} from "./Requests.support.ts"

let databaseUrl: string
let token: string

beforeAll(async () => {
  databaseUrl = await database()
  token = await project(databaseUrl)
})

const start = (env: Readonly<Record<string, string>> = {}) =>
  startService({ env: { ...serviceEnv(databaseUrl), ...env } })

/** A connection that is kept and used again. */
const keptAlive = () => {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  defer(() => agent.destroy())
  return agent
}

/** The head and a part of the body of a create, which the service has by the time this returns. */
const openCreate = async (url: string, key: string, displayName: string, call: Call = {}) => {
  const body = JSON.stringify({ displayName })
  const { answer, request } = open(`${url}${clients}`, {
    ...call,
    method: "POST",
    headers: {
      ...bearer(token),
      ...call.headers,
      "idempotency-key": key,
      "content-type": "application/json",
      "content-length": String(Buffer.byteLength(body))
    }
  })
  defer(() => request.destroy())
  const [first = "", ...rest] = body
  request.write(first)
  // What is asked later is answered later.
  await eventually(() => expect(request.socket?.bytesWritten).toBeGreaterThan(0))
  for (const _ of [1, 2, 3]) await send(`${url}/healthz`)
  return { answer, request, rest: rest.join("") }
}

/** A path that needs nothing tells when new requests are refused. */
const isDraining = (service: Service) =>
  eventually(async () => expect((await send(`${service.url}/nothing-here`)).status).toBe(503))

const expectGoingAway = (answer: Answer) => {
  expectProblem(answer, 503, "service_unavailable")
  expect(answer.headers.connection).toBe("close")
}

const names = async (url: string, of: string) => {
  const { body } = await send(`${url}${clients}?limit=100`, { headers: bearer(of) })
  return JSON.stringify(body)
}

describe("SIGTERM", () => {
  it("lets a request finish whose body is still arriving, and refuses new ones", async () => {
    const service = await start()
    const [idle, other] = [keptAlive(), keptAlive()]
    for (const agent of [idle, other]) expect((await listClients(service.url, token, { agent })).status).toBe(200)
    const { answer, request, rest } = await openCreate(service.url, "slow-body", "Slow Body")

    service.kill("SIGTERM")
    await isDraining(service)
    expectGoingAway(await send(`${service.url}/readyz`))
    expectGoingAway(await listClients(service.url, token))
    expectGoingAway(await createClient(service.url, token, "late-comer", "Late"))
    const onKept = await listClients(service.url, token, { agent: other })
    expectGoingAway(onKept)
    expect(onKept.reused).toBe(true)

    for (const character of rest) {
      request.write(character)
      await sleep(20)
    }
    request.end()
    const created = await answer
    expect(created).toMatchObject({ status: 201, headers: { etag: '"1"' }, body: { changed: true } })
    expect(await ended(service)).toEqual(inGoodOrder)
    expect(service.stderr()).not.toMatch(/ERROR|\n\s+at /)

    const next = await start()
    expect(await names(next.url, token)).toContain("Slow Body")
    expect((await createClient(next.url, token, "slow-body", "Slow Body")).headers).toHaveProperty(
      "idempotent-replayed",
      "true"
    )
    expect(await names(next.url, token)).not.toContain("Late")
  })

  it("lets a request finish whose body was announced by Expect: 100-continue", async () => {
    const service = await start()
    const body = JSON.stringify({ displayName: "Expected" })
    const { answer, request } = open(`${service.url}${clients}`, {
      method: "POST",
      headers: {
        ...bearer(token),
        expect: "100-continue",
        "idempotency-key": "expect-100",
        "content-type": "application/json",
        "content-length": String(body.length)
      }
    })
    const goOn = new Promise((resolve) => request.once("continue", resolve))
    request.flushHeaders()
    await goOn
    const { answer: held, ...holding } = await openCreate(service.url, "holding-on", "Holding")
    service.kill("SIGTERM")
    await isDraining(service)
    holding.request.end(holding.rest)
    expect((await held).status).toBe(201)
    // Alone in flight now.
    await sleep(500)
    request.end(body)
    expect((await answer).status).toBe(201)
    expect(await ended(service)).toEqual(inGoodOrder)
  })

  it("lets a request finish that waits for the database", async () => {
    const service = await start()
    await listClients(service.url, token)
    const [holder, observer] = await Promise.all([session(databaseUrl), session(databaseUrl)])
    await holder("BEGIN")
    await holder("LOCK TABLE clients IN ACCESS EXCLUSIVE MODE")
    const answer = createClient(service.url, token, "locked-out", "Locked")
    const waiting = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    await eventually(async () => expect(await observer(waiting)).not.toEqual([]))
    service.kill("SIGTERM")
    await isDraining(service)
    await holder("COMMIT")
    expect(await answer).toMatchObject({ status: 201, body: { changed: true } })
    expect(await ended(service)).toEqual(inGoodOrder)
  })

  it("gives a request no longer than SHUTDOWN_GRACE", async () => {
    const service = await start({ SHUTDOWN_GRACE: "1s" })
    const { answer } = await openCreate(service.url, "never-ends", "Never")
    const started = performance.now()
    service.kill("SIGTERM")
    const held = answer.then(
      ({ status }) => status,
      () => "cut"
    )
    expect(await ended(service, 10_000)).toEqual(inGoodOrder)
    expect(performance.now() - started).toBeGreaterThanOrEqual(950)
    expect([503, "cut"]).toContain(await held)
    const next = await start()
    expect(await names(next.url, token)).not.toContain("Never")
  })

  it("does not wait for connections on which nothing is asked", async () => {
    const service = await start({ SHUTDOWN_GRACE: "60s" })
    const agent = keptAlive()
    expect((await send(`${service.url}/healthz`, { agent })).status).toBe(200)
    const silent = Net.connect({ port: Number(new URL(service.url).port), host: "127.0.0.1" })
    silent.on("error", () => undefined)
    defer(() => silent.destroy())
    const halfway = Net.connect({ port: Number(new URL(service.url).port), host: "127.0.0.1" })
    halfway.on("error", () => undefined)
    halfway.write("GET /healthz HTTP/1.1\r\nhos")
    defer(() => halfway.destroy())
    for (const _ of [1, 2, 3]) await send(`${service.url}/healthz`)
    service.kill("SIGTERM")
    expect(await ended(service, 10_000)).toEqual(inGoodOrder)
  })

  it("ends a worker, and a service that serves metrics too", async () => {
    const services = await Promise.all([
      startService({ env: serviceEnv(databaseUrl), args: ["--role", "worker"] }),
      start({ ADMIN_PORT: "0" })
    ])
    for (const service of services) expect(await service.stop()).toEqual(inGoodOrder)
  })
})

describe("an end at once", () => {
  it.each([
    ["a second SIGTERM", ["SIGTERM", "SIGTERM"]],
    ["SIGINT after SIGTERM", ["SIGTERM", "SIGINT"]],
    ["SIGINT alone", ["SIGINT"]]
  ] as const)("is what %s brings", async (_, signals) => {
    const service = await start({ SHUTDOWN_GRACE: "60s" })
    const { answer } = await openCreate(service.url, `at-once-${signals.join()}`, "At Once")
    const held = answer.then(
      ({ status }) => status,
      () => "cut"
    )
    for (const [n, signal] of signals.entries()) {
      if (n > 0) await isDraining(service)
      service.kill(signal)
    }
    expect(await ended(service, 10_000)).toEqual(inGoodOrder)
    expect([503, "cut"]).toContain(await held)
  })
})

describe("the embedded PostgreSQL", () => {
  const tokenIn = (text: string) => /dk_\w+/.exec(text)?.[0] ?? ""

  it("is stopped at the end, and its data is found by the next start", async () => {
    const directory = await temporaryDirectory()
    const first = await startService({ env: { DATA_DIR: directory } })
    const key = tokenIn(first.stdout())
    expect((await createClient(first.url, key, "kept-client", "Kept")).status).toBe(201)
    const postmaster = postmasterOf(directory) ?? 0
    expect(isRunning(postmaster)).toBe(true)
    // As Ctrl-C on a terminal and a supervisor's kill of a whole group would reach it, were it in the same one.
    expect(groupOf(postmaster)).not.toBe(groupOf(first.pid))

    expect(await first.stop()).toEqual(inGoodOrder)
    expect(isRunning(postmaster)).toBe(false)
    expect(postmasterOf(directory)).toBeUndefined()

    const second = await startService({ env: { DATA_DIR: directory } })
    expect(await names(second.url, key)).toContain("Kept")
    second.kill("SIGINT")
    expect(await ended(second)).toEqual(inGoodOrder)
    expect(postmasterOf(directory)).toBeUndefined()
  })

  it("outlives a service that is killed, and is adopted, then stopped, by the next", async () => {
    const directory = await temporaryDirectory()
    const first = await startService({ env: { DATA_DIR: directory } })
    const key = tokenIn(first.stdout())
    expect((await createClient(first.url, key, "before-the-kill", "Survivor")).status).toBe(201)
    const postmaster = postmasterOf(directory) ?? 0
    first.kill("SIGKILL")
    await first.exited
    expect(isRunning(postmaster)).toBe(true)

    const second = await startService({ env: { DATA_DIR: directory } })
    expect(postmasterOf(directory)).toBe(postmaster)
    expect(tokenIn(second.stdout())).toBe("")
    const again = await createClient(second.url, key, "before-the-kill", "Survivor")
    expect(again).toMatchObject({ status: 201, headers: { "idempotent-replayed": "true" } })
    expect((await names(second.url, key)).split('"Survivor"')).toHaveLength(2)

    expect(await second.stop()).toEqual(inGoodOrder)
    expect(isRunning(postmaster)).toBe(false)
    expect(postmasterOf(directory)).toBeUndefined()
  })
})
