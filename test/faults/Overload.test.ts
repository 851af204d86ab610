/**
 * Twice as many requests as a service can answer (contract §1, §4): the answers, the memory of the process, and the recovery
 * afterwards. `MINUTES=5` is the length of the load.
 */
import { assert } from "@effect/vitest"
import { describe, it } from "vitest"
import { quantile } from "../bench/Figures.ts"
import { residentMebibytes, type Service, startService } from "../support/Process.ts"
import { eventually } from "../support/Waiting.ts"
import { connectionsUpTo, load, report, request, type LoadRequest } from "./Load.support.ts"
import { database, project, serviceEnv, session } from "./Projects.support.ts"
import { clients, createClient, listClients, send } from "./Requests.support.ts"

const seconds = Number(process.env["MINUTES"] ?? 0.15) * 60

/** Concurrent connections; each sends one request after another. */
const connections = connectionsUpTo(4_000)

const plenty = { limit: 1_000_000_000, windowSeconds: 1 }
const records = { clients: [{ id: "c", displayName: "C" }] }

/** Samples the memory of a process; returns a function that stops it and returns the maximum. */
const watching = ({ pid }: Service) => {
  let most = 0
  const timer = setInterval(() => (most = Math.max(most, residentMebibytes(pid))), 250)
  return () => {
    clearInterval(timer)
    return most
  }
}

describe("a service under twice its load", () => {
  it("refuses with 429 and 503 that say when to retry, answers the rest in time, and recovers", async () => {
    const databaseUrl = await database()
    const wide = await project(databaseUrl, {
      ...records,
      project: { id: "wide", rateLimits: { read: plenty, write: plenty }, contactCapacity: 1_000_000_000 }
    })
    const few = { limit: 100, windowSeconds: 60 }
    const limited = await project(databaseUrl, { ...records, project: { id: "limited", rateLimits: { read: few } } })
    const service = await startService({ env: serviceEnv(databaseUrl) })
    const get = (name: string, token: string): LoadRequest => ({ name, bytes: request("GET", `${clients}/c`, token) })
    const [wideGet, limitedGet] = [get("get", wide), get("limited get", limited)]
    let created = 0
    const nextRequest = (n: number): LoadRequest => {
      if (n % 4 !== 0) return n % 20 === 1 ? limitedGet : wideGet
      const bytes = request("POST", clients, wide, `overload-${created}`, { displayName: `Client ${created++}` })
      return { name: "create", bytes }
    }
    const { url } = service
    await load({ url, nextRequest, seconds: 1, connections: 64 })
    const calm = await load({ url, nextRequest, seconds: 3, connections: 64 })
    const rate = (2 * calm.sent) / 3
    console.log(`64 connections: ${Math.round(rate / 2)} requests/s\n${report(calm)}`)

    const stop = watching(service)
    const began = performance.now()
    const over = await load({ url, nextRequest, seconds, rate, connections })
    const elapsed = performance.now() - began
    const most = stop()
    console.log(
      `twice that for ${seconds} s on ${connections} connections, at most ${most.toFixed(0)} MiB\n${report(over)}`
    )
    const ended = performance.now()
    await eventually(async () => {
      assert.strictEqual((await listClients(url, wide)).status, 200)
      assert.strictEqual((await createClient(url, wide, "after-the-load", "After")).status, 201)
      assert.strictEqual((await send(`${url}/readyz`)).status, 200)
    })
    console.log(`answers again ${Math.round(performance.now() - ended)} ms after the load`)

    const kinds = [
      "create 201",
      "create 503",
      "get 200",
      "get 503",
      "limited get 200",
      "limited get 429",
      "limited get 503"
    ]
    assert.includeMembers(kinds, [...over.answers.keys()])
    assert.includeMembers([...over.answers.keys()], ["create 201", "get 200", "limited get 429"])
    assert.strictEqual(over.lost, 0)
    for (const [kind, { withoutRetryAfter }] of over.answers)
      if (/ (429|503)$/.test(kind)) assert.strictEqual(withoutRetryAfter, 0, kind)
    // With a request on each connection, the mean wait is their number divided by the rate of answers, whatever the speed of
    // the machine. A request that the service has begun fails after 5 s (contract §15). The answers are judged together and
    // not by kind: a kind with few answers would be judged by its slowest.
    const waits = [...over.answers.values()].flatMap(({ millis }) => millis)
    assert.isBelow(quantile(waits, 0.95), 5_000 + (2 * connections * elapsed) / waits.length)
    assert.isBelow(most, 512)

    // Every acknowledged record is stored, once.
    const sql = await session(databaseUrl)
    const [row] = await sql(`
      SELECT count(*) AS stored, count(DISTINCT display_name) AS different FROM clients
      WHERE project_id = 'wide' AND display_name LIKE 'Client %'`)
    const acknowledged = [calm, over].reduce(
      (sum, { answers }) => sum + (answers.get("create 201")?.millis.length ?? 0),
      0
    )
    assert.strictEqual(row?.["stored"], row?.["different"])
    assert.isAtLeast(Number(row?.["stored"]), acknowledged)
    assert.isAtMost(Number(row?.["stored"]), created)
  }, 900_000)
})
