/** The number of connections to PostgreSQL that a service opens (contract §14). */
import { assert } from "@effect/vitest"
import { describe, it } from "vitest"
import { leastConnections } from "../../src/platform/Pools.ts"
import { ok, settings } from "../integrations/deliveries/Deliveries.support.ts"
import { eventually, untilNoneLeft } from "../support/Waiting.ts"
import { startService } from "../support/Process.ts"
import { database, serviceEnv, session } from "./Projects.support.ts"
import { bearer, clients, send, stream } from "./Requests.support.ts"
import { listen, openShop } from "./Shop.support.ts"

const databaseUrl = await database()

const start = (role: "all" | "worker", env: Readonly<Record<string, string>> = {}) =>
  startService({ env: { ...serviceEnv(databaseUrl), ...settings, ...env }, args: ["--role", role] })

/** Loads processes with reads, mutations and deliveries; returns the largest number of open connections. */
const mostConnections = async (services: ReadonlyArray<Awaited<ReturnType<typeof start>>>) => {
  const [first] = services
  if (first === undefined) throw new Error("A service is needed")
  const receiver = await listen(ok)
  const shop = await openShop(databaseUrl, first, receiver.url)
  const sql = await session(databaseUrl)
  const of = (n: number) => services[n % services.length] ?? first
  const write = (n: number) => shop.call(of(n), "POST", "crm/deals", `connections-${n}`, { title: `Deal ${n}` })
  const read = (n: number) => send(`${of(n).url}${clients}?limit=10`, { headers: bearer(shop.token) })
  const [writes, reads] = [stream(24, write, 0), stream(24, read, 0)]
  let most = 0
  await eventually(async () => {
    // The test's own sessions have another application name.
    const [row] = await sql(`
      SELECT count(*) FROM pg_stat_activity
      WHERE datname = current_database() AND application_name LIKE 'developer-api%'`)
    most = Math.max(most, Number(row?.["count"]))
    assert.isAbove(Math.min(writes.answers.length, reads.answers.length), 250)
  })
  await Promise.all([writes.stop(), reads.stop()])
  assert.deepStrictEqual([writes.kinds(), reads.kinds()], [["201"], ["200"]])
  await untilNoneLeft(() => shop.inState("pending", "delivering"))
  return most
}

describe("the connections of a service", () => {
  it("are at most as many as DATABASE_MAX_CONNECTIONS allows, down to one for each purpose", async () => {
    const service = await start("all", { DATABASE_MAX_CONNECTIONS: String(leastConnections) })
    assert.isAtMost(await mostConnections([service]), leastConnections)
  })
})
