/** A primary with a synchronous standby, both of the test's own, behind one address. */
import { PgClient } from "@effect/sql-pg"
import { Effect, Redacted } from "effect"
import { cp, writeFile } from "node:fs/promises"
import * as Path from "node:path"
import * as Embedded from "../../src/platform/EmbeddedPostgres/Cluster.ts"
import * as Postmaster from "../../src/platform/EmbeddedPostgres/Postmaster.ts"
import * as Session from "../../src/platform/EmbeddedPostgres/Session.ts"
import { migrate } from "../../src/platform/Migrations.ts"
import { childrenOf, freePort, isRunning, kill, spawn, temporaryDirectory } from "../support/Process.ts"
import { eventually } from "../support/Waiting.ts"
import { openProxy } from "../support/WireProxy.ts"
import { session } from "./Projects.support.ts"

export interface Pair {
  /** A migrated database, wherever the address leads. */
  readonly url: string
  /** Kills every process of the primary. */
  readonly killPrimary: () => Promise<void>
  /** Lets the address lead to the standby, which takes no writes before `promote`. */
  readonly turnToStandby: () => void
  readonly promote: () => Promise<unknown>
}

const flags = { fsync: "off", full_page_writes: "off", shared_buffers: "32MB" }

export const startPair = async (): Promise<Pair> => {
  const [directory, copy, standbyPort] = await Promise.all([temporaryDirectory(), temporaryDirectory(), freePort()])
  const cluster = await Effect.runPromise(Embedded.open({ directory, flags }))
  const first = await Effect.runPromise(Postmaster.serve(cluster))
  await Session.join(cluster, first).pipe(Effect.flatMap(Session.createDatabase), Effect.scoped, Effect.runPromise)
  await migrate.pipe(Effect.provide(PgClient.layer({ url: Session.url(cluster, first) })), Effect.runPromise)
  await Effect.runPromise(Postmaster.stop(first.pid))

  await cp(directory, copy, { recursive: true, preserveTimestamps: true })
  const other = await Effect.runPromise(Embedded.open({ directory: copy }))
  await writeFile(Path.join(other.data, "standby.signal"), "")
  await Effect.runPromise(other.privileges.give(other.data))

  // A commit is acknowledged once the standby has it, too.
  const primary = await Effect.runPromise(
    Postmaster.serve({ ...cluster, flags: { ...flags, synchronous_standby_names: "*" } })
  )
  const settings = {
    ...flags,
    listen_addresses: "127.0.0.1",
    unix_socket_directories: "",
    timezone: "UTC",
    primary_conninfo: `host=127.0.0.1 port=${primary.port} user=postgres password=${Redacted.value(cluster.password)}`
  }
  const { args, file } = other.privileges.command(other.postgres, [
    "-D",
    other.data,
    "-p",
    String(standbyPort),
    ...Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`])
  ])
  spawn(file, args)

  const at = (port: number) => {
    const url = new URL(Redacted.value(Session.url(cluster, primary)))
    url.port = String(port)
    return url.href
  }
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
