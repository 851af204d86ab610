/** Two servers behind one address: a primary, and a standby to which it replicates. */
import { assert } from "@effect/vitest"
import { PgClient } from "@effect/sql-pg"
import { Effect, Redacted } from "effect"
import { cp, writeFile } from "node:fs/promises"
import * as Path from "node:path"
import { beforeAll, describe, it } from "vitest"
import * as Embedded from "../../src/sql/embedded/Cluster.ts"
import * as Server from "../../src/sql/embedded/Server.ts"
import { migrate } from "../../src/sql/migrations/Migrations.ts"
import { ok, settings } from "../webhooks/delivery/Deliveries.support.ts"
import { freePort, killServer, spawn, temporaryDirectory } from "../support/Process.ts"
import { eventually } from "../support/Waiting.ts"
import { openProxy, type WireProxy } from "../support/WireProxy.ts"
import { startServer } from "./Cluster.support.ts"
import { session, startHere } from "./Projects.support.ts"
import { createClient, expectProblem, listClients, send } from "./Requests.support.ts"
import { listen, openShop } from "./Shop.support.ts"

const flags = { fsync: "off", full_page_writes: "off", shared_buffers: "32MB" }

/** A primary and a synchronous standby, each with the URL of its own. */
interface Pair {
  readonly primary: { readonly port: number; readonly url: string; readonly kill: () => Promise<void> }
  readonly standby: { readonly port: number; readonly url: string }
}

const startPair = async (): Promise<Pair> => {
  const [directory, copy, standbyPort] = await Promise.all([temporaryDirectory(), temporaryDirectory(), freePort()])
  const cluster = await Effect.runPromise(Embedded.open({ directory, flags }))
  const first = await startServer(cluster)
  const url = Embedded.ownerUrlOf(cluster, first.port, "developer_api")
  await migrate.pipe(Effect.provide(PgClient.layer({ url })), Effect.runPromise)
  await Effect.runPromise(Server.stop(first.pid))

  await cp(directory, copy, { recursive: true, preserveTimestamps: true })
  const other = await Effect.runPromise(Embedded.open({ directory: copy }))
  await writeFile(Path.join(other.data, "standby.signal"), "")
  await Effect.runPromise(other.give(other.data))

  const primary = await Effect.runPromise(
    Server.start({ ...cluster, flags: { ...flags, synchronous_standby_names: "*" } }, Effect.succeed)
  )
  const settings = {
    ...flags,
    port: standbyPort,
    listen_addresses: "127.0.0.1",
    unix_socket_directories: "",
    timezone: "UTC",
    primary_conninfo: `host=127.0.0.1 port=${primary.port} user=postgres password=${Redacted.value(cluster.password)}`
  }
  const options = Object.entries(settings).map(([name, value]) => `--${name}=${value}`)
  const [file = "", ...args] = [...other.prefix, other.postgres, "-D", other.data, ...options]
  spawn(file, args)

  const at = (port: number) => Redacted.value(Embedded.ownerUrlOf(cluster, port, "developer_api"))
  const ofPrimary = await session(at(primary.port))
  await eventually(async () => {
    const rows = await ofPrimary("SELECT FROM pg_stat_replication WHERE sync_state = 'sync'")
    if (rows.length === 0) throw new Error("The standby is not attached")
  })
  return {
    primary: {
      port: primary.port,
      url: at(primary.port),
      kill: () => killServer(primary.pid)
    },
    standby: { port: standbyPort, url: at(standbyPort) }
  }
}

describe("a service whose address of the database has led to a standby", () => {
  let pair: Pair
  let proxy: WireProxy
  beforeAll(async () => {
    pair = await startPair()
    proxy = await openProxy(pair.primary.url)
  }, 60_000)

  it("leaves the standby when the address leads to the primary again, and is not ready before", async () => {
    const shop = await listen(ok)
    const api = await startHere(proxy.url, settings, "all")
    const { create, token, unfinished } = await openShop(pair.primary.url, api, shop.url)
    const status = async () => (await send(`${api.url}/readyz`)).status
    assert.strictEqual(await status(), 200)

    proxy.turnTo(pair.standby.port)
    // Reads open sessions at the standby. They are answered there, and writes are refused.
    await eventually(async () => assert.strictEqual((await listClients(api.url, token)).status, 200))
    await eventually(async () =>
      expectProblem(await createClient(api.url, token, "failover-refused", "Anna"), 503, "service_unavailable")
    )
    assert.strictEqual(await status(), 503)

    proxy.turnTo(pair.primary.port, "kept")
    const start = performance.now()
    await eventually(async () =>
      assert.strictEqual((await createClient(api.url, token, "failover-refused", "Anna")).status, 201)
    )
    await eventually(async () => assert.strictEqual(await status(), 200))
    assert.isBelow(performance.now() - start, 6_000)
    // Deliveries are made once: the lock of the worker is where it claims.
    for (let n = 0; n < 5; n++) await create(`failover-deal-${n}`)
    await eventually(async () => assert.deepStrictEqual(await unfinished(), []))
    assert.deepStrictEqual(
      [...shop.seen().values()].map((hits) => hits.length),
      [1, 1, 1, 1, 1]
    )
    await eventually(async () => {
      const sessions = await (
        await session(pair.standby.url)
      )(`
        SELECT application_name AS name FROM pg_stat_activity
        WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND application_name LIKE 'developer-api%'`)
      assert.deepStrictEqual(sessions, [])
    })
  })

  it("goes on with acknowledged writes after the standby is promoted", async () => {
    const api = await startHere(proxy.url, settings, "all")
    const { token } = await openShop(pair.primary.url, api, (await listen(ok)).url)
    assert.strictEqual((await createClient(api.url, token, "failover-before", "Anna")).status, 201)
    await pair.primary.kill()
    proxy.turnTo(pair.standby.port)
    expectProblem(await createClient(api.url, token, "failover-after", "Bert"), 503, "service_unavailable")
    await (
      await session(pair.standby.url)
    )("SELECT pg_promote()")
    await eventually(async () =>
      assert.strictEqual((await createClient(api.url, token, "failover-after", "Bert")).status, 201)
    )
    assert.strictEqual((await createClient(api.url, token, "failover-before", "Anna")).status, 201)
    await eventually(async () => assert.strictEqual((await send(`${api.url}/readyz`)).status, 200))
  })
})
