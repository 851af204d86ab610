/** A PostgreSQL cluster of a test, which only the test starts again. */
import { PgClient } from "@effect/sql-pg"
import { Effect, Redacted } from "effect"
import { migrate } from "../../src/platform/Migrations.ts"
import * as Embedded from "../../src/platform/EmbeddedPostgres/Cluster.ts"
import * as Postmaster from "../../src/platform/EmbeddedPostgres/Postmaster.ts"
import * as Session from "../../src/platform/EmbeddedPostgres/Session.ts"
import { defer } from "../support/Finalizers.ts"
import { childrenOf, isRunning, kill, temporaryDirectory } from "../support/Process.ts"
import { eventually } from "../support/Waiting.ts"

export interface Cluster {
  /** The URL of a migrated database; it stays valid. */
  readonly url: string
  readonly port: number
  /** The file that PostgreSQL writes its log to. */
  readonly log: string
  readonly start: () => Promise<void>
  /** Shuts it down, which ends all sessions. */
  readonly stop: () => Promise<void>
  /** Kills all of its processes, and waits until they have exited. */
  readonly kill: () => Promise<void>
  /** Kills one session, after which PostgreSQL ends all sessions and recovers. */
  readonly crash: (pid: number) => void
  /** `SIGSTOP` suspends all of its processes, `SIGCONT` resumes them. */
  readonly signal: (signal: "SIGSTOP" | "SIGCONT") => void
}

/** Starts a cluster with a migrated database. */
export const startCluster = async (): Promise<Cluster> => {
  const directory = await temporaryDirectory()
  const cluster = await Effect.runPromise(
    Embedded.open({ directory, flags: { fsync: "off", full_page_writes: "off", shared_buffers: "32MB" } })
  )
  let server = await Effect.runPromise(Postmaster.serve(cluster))
  const processes = () => [server.pid, ...childrenOf(server.pid)]
  const signalAll = (signal: NodeJS.Signals) => {
    // The postmaster first, because it starts new sessions.
    kill(server.pid, signal)
    for (const pid of processes()) kill(pid, signal)
  }
  const start = async () => {
    // Sessions of a killed server may hold its shared memory for a moment.
    server = await eventually(() => Effect.runPromise(Postmaster.serve(cluster, server.port)))
  }
  /** After the test, resumes PostgreSQL or starts it again, for the next test. */
  const restore = () => defer(() => (isRunning(server.pid) ? signalAll("SIGCONT") : start()))
  await Session.join(cluster, server).pipe(Effect.flatMap(Session.createDatabase), Effect.scoped, Effect.runPromise)
  const url = Redacted.value(Session.url(cluster, server))
  await migrate.pipe(Effect.provide(PgClient.layer({ url: Redacted.make(url), maxConnections: 1 })), Effect.runPromise)
  return {
    url,
    port: server.port,
    log: cluster.log,
    start,
    stop: () => {
      restore()
      return Effect.runPromise(Postmaster.stop(server.pid))
    },
    kill: async () => {
      restore()
      const all = processes()
      signalAll("SIGKILL")
      await eventually(() => {
        if (all.some(isRunning)) throw new Error("PostgreSQL is still running")
      })
    },
    crash: (pid) => kill(pid, "SIGKILL"),
    signal: (signal) => {
      restore()
      signalAll(signal)
    }
  }
}
