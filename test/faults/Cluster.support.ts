/** A PostgreSQL cluster of a test, which only the test starts again. */
import { PgClient, PgConnection } from "@effect/sql-pg"
import { Effect, Redacted } from "effect"
import { migrate } from "../../src/sql/migrations/Migrations.ts"
import * as Embedded from "../../src/sql/embedded/Cluster.ts"
import * as Server from "../../src/sql/embedded/Server.ts"
import { defer } from "../support/Finalizers.ts"
import { childrenOf, isRunning, kill, killServer, temporaryDirectory } from "../support/Process.ts"
import { eventually } from "../support/Waiting.ts"

/** Starts the server of a new cluster, and creates the service's database. No process starts that server again. */
export const startServer = (cluster: Embedded.Cluster): Promise<Server.Server> => {
  const create = (server: Server.Server) =>
    PgConnection.make({ url: Embedded.ownerUrlOf(cluster, server.port, "postgres"), ssl: false }).pipe(
      Effect.flatMap((session) => session.query("create database developer_api", [], false)),
      Effect.as(server),
      Effect.scoped,
      Effect.orDie
    )
  return Effect.runPromise(Server.start(cluster, create))
}

/** Starts a cluster with a migrated database. `flags` are settings of PostgreSQL. */
export const startCluster = async (flags: Readonly<Record<string, string>> = {}) => {
  const directory = await temporaryDirectory()
  const cluster = await Effect.runPromise(
    Embedded.open({ directory, flags: { fsync: "off", full_page_writes: "off", shared_buffers: "32MB", ...flags } })
  )
  let server = await startServer(cluster)
  const signalAll = (signal: "SIGSTOP" | "SIGCONT") => {
    // The postmaster first, because it starts new sessions.
    kill(server.pid, signal)
    for (const pid of childrenOf(server.pid)) kill(pid, signal)
  }
  const start = async () => {
    // Sessions of a killed server may hold its shared memory for a moment.
    server = await eventually(() => Effect.runPromise(Server.start(cluster, Effect.succeed, server.port)))
  }
  /** After the test, resumes PostgreSQL or starts it again, for the next test. */
  const restore = () => defer(() => (isRunning(server.pid) ? signalAll("SIGCONT") : start()))
  const url = Redacted.value(Embedded.ownerUrlOf(cluster, server.port, "developer_api"))
  await migrate.pipe(Effect.provide(PgClient.layer({ url: Redacted.make(url), maxConnections: 1 })), Effect.runPromise)
  return {
    /** The URL of a migrated database; it stays valid. */
    url,
    port: server.port,
    /** The file that PostgreSQL writes its log to. */
    log: cluster.log,
    start,
    /** Shuts it down, which ends all sessions. */
    stop: () => {
      restore()
      return Effect.runPromise(Server.stop(server.pid))
    },
    /** Kills all of its processes, and waits until they have exited. */
    kill: async () => {
      restore()
      await killServer(server.pid)
    },
    /** Kills one session, after which PostgreSQL ends all sessions and recovers. */
    crash: (pid: number) => kill(pid, "SIGKILL"),
    /** `SIGSTOP` suspends all of its processes, `SIGCONT` resumes them. */
    signal: (signal: "SIGSTOP" | "SIGCONT") => {
      restore()
      signalAll(signal)
    }
  }
}
