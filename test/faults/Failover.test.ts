/** Failover to a synchronous standby under load: no acknowledged change is lost (contract §5, §10). */
import { assert } from "@effect/vitest"
import { describe, it } from "vitest"
import { PgClient } from "@effect/sql-pg"
import { Effect, Redacted } from "effect"
import { cp, writeFile } from "node:fs/promises"
import * as Path from "node:path"
import * as Embedded from "../../src/platform/database/EmbeddedPostgres/Cluster.ts"
import * as Server from "../../src/platform/database/EmbeddedPostgres/Server.ts"
import { migrate } from "../../src/platform/database/Migrations.ts"
import { settings } from "../integrations/deliveries/Deliveries.support.ts"
import { childrenOf, freePort, isRunning, kill, spawn, temporaryDirectory } from "../support/Process.ts"
import { eventually } from "../support/Waiting.ts"
import { openProxy } from "../support/WireProxy.ts"
import { startServer } from "./Cluster.support.ts"
import { openLedger } from "./Ledger.support.ts"
import { session, startHere } from "./Projects.support.ts"
import { createClient, expectProblem, listClients } from "./Requests.support.ts"

/** A primary with a synchronous standby, behind one address. */
interface Pair {
  /** The URL of a migrated database, at the address that both share. */
  readonly url: string
  /** Kills every process of the primary. */
  readonly killPrimary: () => Promise<void>
  /** Redirects the address to the standby, which refuses writes before `promote`. */
  readonly turnToStandby: () => void
  readonly promote: () => Promise<unknown>
}

const flags = { fsync: "off", full_page_writes: "off", shared_buffers: "32MB" }

const startPair = async (): Promise<Pair> => {
  const [directory, copy, standbyPort] = await Promise.all([temporaryDirectory(), temporaryDirectory(), freePort()])
  const cluster = await Effect.runPromise(Embedded.open({ directory, flags }))
  const first = await startServer(cluster)
  const url = Embedded.urlOf(cluster, first.port, "developer_api")
  await migrate.pipe(Effect.provide(PgClient.layer({ url })), Effect.runPromise)
  await Effect.runPromise(Server.stop(first.pid))

  await cp(directory, copy, { recursive: true, preserveTimestamps: true })
  const other = await Effect.runPromise(Embedded.open({ directory: copy }))
  await writeFile(Path.join(other.data, "standby.signal"), "")
  await Effect.runPromise(other.give(other.data))

  // A commit is acknowledged once the standby has it as well.
  const primary = await Effect.runPromise(
    Server.start({ ...cluster, flags: { ...flags, synchronous_standby_names: "*" } }, () => Effect.void)
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

  const at = (port: number) => Redacted.value(Embedded.urlOf(cluster, port, "developer_api"))
  const proxy = await openProxy(at(primary.port))
  const ofPrimary = await session(at(primary.port))
  await eventually(async () => {
    const rows = await ofPrimary("SELECT FROM pg_stat_replication WHERE sync_state = 'sync'")
    if (rows.length === 0) throw new Error("The standby is not attached")
  })
  return {
    url: proxy.url,
    killPrimary: async () => {
      const all = [primary.pid, ...childrenOf(primary.pid)]
      for (const pid of all) kill(pid, "SIGKILL")
      await eventually(() => {
        if (all.some(isRunning)) throw new Error("The primary is still there")
      })
    },
    turnToStandby: () => proxy.turnTo(standbyPort),
    promote: async () => (await session(at(standbyPort)))("SELECT pg_promote()")
  }
}

describe("a primary that is killed under load", () => {
  it("loses no acknowledged command, repeats no effect, and has writes answer 503 until the standby is promoted", async () => {
    const pair = await startPair()
    const start = (role: "api" | "worker") => startHere(pair.url, settings, role)
    const [api] = await Promise.all([start("api"), start("worker"), start("worker")])
    const ledger = await openLedger(pair.url, () => api)
    const { token } = ledger.shop
    await ledger.untilProgress()

    await pair.killPrimary()
    expectProblem(await createClient(api.url, token, "without-a-primary", "Nobody"), 503, "service_unavailable")
    pair.turnToStandby()
    // The standby answers reads, and refuses writes.
    await eventually(async () => assert.strictEqual((await listClients(api.url, token)).status, 200))
    expectProblem(await createClient(api.url, token, "without-a-primary", "Nobody"), 503, "service_unavailable")

    // Deliveries in flight at the failover may arrive again. Claims are not flushed, so the standby may lack them.
    await ledger.allowUnrecorded()
    await pair.promote()
    await eventually(async () =>
      assert.strictEqual((await createClient(api.url, token, "without-a-primary", "Nobody")).status, 201)
    )
    await ledger.untilProgress()
    await ledger.balance()
  }, 120_000)
})
