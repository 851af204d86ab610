/**
 * Finds, starts and stops the server of a cluster. PostgreSQL locks its data directory by the file `postmaster.pid`, which
 * also describes the server that runs on it.
 */
import { Effect, Exit, Random } from "effect"
import { readlinkSync, rmSync, statSync, truncateSync } from "node:fs"
import * as Path from "node:path"
import type { Cluster } from "./Cluster.ts"
import { EmbeddedPostgresError, isRunning, signal, spawn, textOf, untilEnded } from "./Processes.ts"

/** A server that accepts connections on 127.0.0.1. */
export interface Server {
  readonly pid: number
  readonly port: number
}

/** Returns the server that runs on the data directory; undefined if none runs. Fails as `Busy` while it is not ready. */
export const find = Effect.fnUntraced(function* (
  cluster: Cluster
): Effect.fn.Return<Server | undefined, EmbeddedPostgresError> {
  const path = lockOf(cluster)
  const text = textOf(path)
  const { isReady, pid, port } = parse(text)
  if (!isRunning(pid)) return undefined
  if (!worksIn(pid, cluster.data)) {
    // PostgreSQL would keep this lock: it replaces only the lock of a dead process. Read again, as another process may have
    // removed the lock and started a server in the meantime.
    if (textOf(path) === text) rmSync(path, { force: true })
    return undefined
  }
  if (isReady) return { pid, port }
  return yield* new EmbeddedPostgresError({
    reason: "Busy",
    message: `PostgreSQL (process ${pid}) is starting or stopping; see ${cluster.log}`
  })
})

/**
 * Starts the server, on `port` if given, and stops it if `use` fails or is interrupted. Of two concurrent processes,
 * PostgreSQL's own lock decides which one starts it; the other fails as `Busy`.
 */
export const start = Effect.fnUntraced(function* <R>(
  cluster: Cluster,
  use: (server: Server) => Effect.Effect<void, EmbeddedPostgresError, R>,
  port?: number
): Effect.fn.Return<Server, EmbeddedPostgresError, R> {
  if ((statSync(cluster.log, { throwIfNoEntry: false })?.size ?? 0) > maxLogSize) truncateSync(cluster.log)
  const settings = {
    port: port ?? lastPort(cluster) ?? (yield* newPort),
    listen_addresses: "127.0.0.1",
    unix_socket_directories: "",
    timezone: "UTC",
    log_timezone: "UTC",
    // A project can be moved to another database (contract §18).
    wal_level: "logical",
    ...cluster.flags
  }
  const options = Object.entries(settings).map(([name, value]) => `--${name}=${value}`)
  const before = textOf(lockOf(cluster))
  // In a container a server often has the same process id after a crash as before: the lock from before is not its own.
  const untilReady = (pid: number) =>
    Effect.sync(() => parse(textOf(lockOf(cluster)))).pipe(
      Effect.delay("25 millis"),
      Effect.repeat({ until: (lock) => lock.isReady && lock.pid === pid && lock.text !== before })
    )
  return yield* Effect.acquireUseRelease(
    spawn([...cluster.prefix, cluster.postgres, "-D", cluster.data, ...options], cluster.log),
    ({ ended, logged, pid }) =>
      untilReady(pid).pipe(
        Effect.raceFirst(Effect.flatMap(ended, (how) => Effect.fail(startFailure(cluster, pid, logged(), how)))),
        Effect.tap(use)
      ),
    ({ pid, unref }, exit) => (Exit.isSuccess(exit) ? Effect.sync(unref) : stop(pid))
  )
})

// The last checkpoint of a large database takes time; without it, the next start recovers from the log.
const stopSignals = [
  ["SIGINT", "60 seconds"],
  ["SIGQUIT", "10 seconds"],
  ["SIGKILL", "10 seconds"]
] as const

/** Stops a server fast (sessions end, their commits are kept), and harder when that takes too long. */
export const stop = Effect.fnUntraced(function* (pid: number) {
  for (const [name, limit] of stopSignals) {
    if (!isRunning(pid)) return
    signal(pid, name)
    yield* untilEnded(pid, "20 millis").pipe(Effect.timeoutOption(limit))
  }
})

/** Size above which a start empties the log. Writers append, so an open writer continues at its start. */
const maxLogSize = 10 * 1024 * 1024

// Below the range of ephemeral ports: from that range, a client that reconnects while the server is down may get this
// very port and connect to itself.
const newPort = Random.nextIntBetween(20_000, 30_000)

/** Where PostgreSQL stores the arguments of the last start that could listen on its port. */
const argumentsOf = ({ data }: Cluster) => Path.join(data, "postmaster.opts")

/** The port of the last start: clients of a server that has died may retry there. */
const lastPort = (cluster: Cluster): number | undefined => {
  const port = /"--port=(\d+)"/.exec(textOf(argumentsOf(cluster)))?.[1]
  return port === undefined ? undefined : Number(port)
}

const lockOf = ({ data }: Cluster) => Path.join(data, "postmaster.pid")

const parse = (text: string) => {
  const [pid = "", , , port, , , , status] = text.split("\n")
  // A server in single-user mode writes a negative number.
  return { text, pid: Math.abs(Number.parseInt(pid, 10)), port: Number(port), isReady: status?.trim() === "ready" }
}

/**
 * Whether the working directory of a process is `data`, as for its server. If not, the process id of a dead server now
 * belongs to an unrelated program. Returns true where the system does not show the directory.
 */
const worksIn = (pid: number, data: string): boolean => {
  try {
    return readlinkSync(`/proc/${pid}/cwd`) === data
  } catch {
    return true
  }
}

// Another process started first, sessions of a killed server still hold its shared memory, or the port is taken.
const busy =
  /lock file "postmaster\.pid" (already exists|is empty)|shared memory block .* is still in use|could not create any TCP/

/** Returns the reason why a started server has ended, from what it has logged. */
const startFailure = (cluster: Cluster, pid: number, logged: ReadonlyArray<string>, ended: string) => {
  // Several processes may write to the log; each line has its process id.
  const own = logged.filter((line) => line.includes(`[${pid}]`)).join("\n")
  // The next attempt takes another port.
  if (own.includes("could not create any TCP")) rmSync(argumentsOf(cluster), { force: true })
  const words = /FATAL: +(.*)/.exec(own)?.[1] ?? logged.at(-1) ?? "no message"
  return new EmbeddedPostgresError({
    reason: busy.test(own) || ended.startsWith("signal") ? "Busy" : "Failed",
    message: `PostgreSQL did not start (${ended}): ${words}; see ${cluster.log}`
  })
}
