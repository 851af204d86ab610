/** The shutdown of the service, and the state that it leaves (contract §15). */
import { Agent } from "node:http"
import * as Net from "node:net"
import { setTimeout as sleep } from "node:timers/promises"
import { assert } from "@effect/vitest"
import { describe, it } from "vitest"
import { defer } from "../support/Finalizers.ts"
import { ended, inGoodOrder, startService } from "../support/Process.ts"
import { assertMatches } from "../support/Matches.ts"
import { database, project, serviceEnv, session, startHere } from "./Projects.support.ts"
import {
  type Answer,
  bearer,
  type Call,
  clients,
  createClient,
  expectProblem,
  isDraining,
  listClients,
  open,
  send,
  sendOpen
} from "./Requests.support.ts"
import { eventually } from "../support/Waiting.ts"

const databaseUrl = await database()
const token = await project(databaseUrl)

/** Serves what others have left. */
const next = await startHere(databaseUrl)

const start = (env: Readonly<Record<string, string>> = {}) =>
  startService({ env: { ...serviceEnv(databaseUrl), ...env } })

/** Creates an agent with one persistent connection. */
const keptAlive = () => {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  defer(() => agent.destroy())
  return agent
}

/** Sends the head and a part of the body of a create; returns after the service has received them. */
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
  // Later requests are handled after these bytes.
  await eventually(() => assert.isAbove(Number(request.socket?.bytesWritten), 0))
  for (const _ of [1, 2, 3]) await send(`${url}/healthz`)
  return { answer, request, rest: rest.join("") }
}

const expectGoingAway = (answer: Answer) => {
  expectProblem(answer, 503, "service_unavailable")
  assert.strictEqual(answer.headers.connection, "close")
}

const names = async (url: string, of: string) => {
  const { json: body } = await send(`${url}${clients}?limit=100`, { headers: bearer(of) })
  return JSON.stringify(body)
}

describe("a service on SIGTERM", () => {
  it("finishes a request whose body is still arriving, and refuses new ones", async () => {
    const service = await start()
    const [idle, other] = [keptAlive(), keptAlive()]
    for (const agent of [idle, other])
      assert.strictEqual((await listClients(service.url, token, { agent })).status, 200)
    const { answer, request, rest } = await openCreate(service.url, "slow-body", "Slow Body")

    service.kill("SIGTERM")
    await isDraining(service)
    expectGoingAway(await send(`${service.url}/readyz`))
    // The process still runs.
    assert.strictEqual((await send(`${service.url}/healthz`)).status, 200)
    expectGoingAway(await listClients(service.url, token))
    expectGoingAway(await createClient(service.url, token, "late-comer", "Late"))
    const onKept = sendOpen(`${service.url}${clients}?limit=1`, { agent: other, headers: bearer(token) })
    expectGoingAway(await onKept.answer)
    assert.isTrue(onKept.request.reusedSocket)

    for (const character of rest) {
      request.write(character)
      await sleep(20)
    }
    request.end()
    const created = await answer
    assertMatches(created, { status: 201, headers: { etag: '"1"' }, json: { changed: true } })
    assert.deepStrictEqual(await ended(service), inGoodOrder)
    assert.notMatch(service.stderr(), /ERROR|\n\s+at /)
    // The log tells an operator an end by a signal from a death.
    assert.match(service.stderr(), /The service ends after SIGTERM/)

    assert.include(await names(next.url, token), "Slow Body")
    assert.propertyVal(
      (await createClient(next.url, token, "slow-body", "Slow Body")).headers,
      "idempotent-replayed",
      "true"
    )
    assert.notInclude(await names(next.url, token), "Late")
  })

  it("finishes a request that waits for the database", async () => {
    const service = await start()
    await listClients(service.url, token)
    const [holder, observer] = await Promise.all([session(databaseUrl), session(databaseUrl)])
    await holder("BEGIN")
    await holder("LOCK TABLE clients IN ACCESS EXCLUSIVE MODE")
    const answer = createClient(service.url, token, "locked-out", "Locked")
    const waiting = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    await eventually(async () => assert.notDeepEqual(await observer(waiting), []))
    service.kill("SIGTERM")
    await isDraining(service)
    await holder("COMMIT")
    assertMatches(await answer, { status: 201, json: { changed: true } })
    assert.deepStrictEqual(await ended(service), inGoodOrder)
  })

  it("ends a request after SHUTDOWN_GRACE", async () => {
    const service = await start({ SHUTDOWN_GRACE: "1s" })
    const { answer } = await openCreate(service.url, "never-ends", "Never")
    const started = performance.now()
    service.kill("SIGTERM")
    const held = answer.then(
      ({ status }) => status,
      () => "cut"
    )
    assert.deepStrictEqual(await ended(service, 10_000), inGoodOrder)
    assert.isAtLeast(performance.now() - started, 950)
    assert.include([503, "cut"], await held)
    assert.notInclude(await names(next.url, token), "Never")
  })

  it("does not wait for idle connections", async () => {
    const service = await start({ SHUTDOWN_GRACE: "60s" })
    const agent = keptAlive()
    assert.strictEqual((await send(`${service.url}/healthz`, { agent })).status, 200)
    const silent = Net.connect({ port: Number(new URL(service.url).port), host: "127.0.0.1" })
    silent.on("error", () => undefined)
    defer(() => silent.destroy())
    const halfway = Net.connect({ port: Number(new URL(service.url).port), host: "127.0.0.1" })
    halfway.on("error", () => undefined)
    halfway.write("GET /healthz HTTP/1.1\r\nhos")
    defer(() => halfway.destroy())
    for (const _ of [1, 2, 3]) await send(`${service.url}/healthz`)
    service.kill("SIGTERM")
    assert.deepStrictEqual(await ended(service, 10_000), inGoodOrder)
  })
})

describe("an immediate end of a service", () => {
  it.each([
    ["a second SIGTERM", ["SIGTERM", "SIGTERM"]],
    ["SIGINT after SIGTERM", ["SIGTERM", "SIGINT"]],
    ["SIGINT alone", ["SIGINT"]]
  ] as const)("follows %s", async (_, signals) => {
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
    assert.deepStrictEqual(await ended(service, 10_000), inGoodOrder)
    assert.include([503, "cut"], await held)
  })
})
