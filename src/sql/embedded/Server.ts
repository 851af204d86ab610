/**
 * Finds, starts and stops the server of a cluster, which is a data directory of PostgreSQL. The server locks the directory with
 * the file `postmaster.pid`. The file also contains the process id and the port of the server.
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

/** Returns the server of the cluster; undefined if it does not run. Fails as `Busy` while the server is not ready. */
export const find = Effect.fnUntraced(function* (
  cluster: Cluster
): Effect.fn.Return<Server | undefined, EmbeddedPostgresError> {
  const path = lockOf(cluster)
  const text = textOf(path)
  const { isReady, pid, port } = parse(text)
  if (!isRunning(pid)) return undefined
  if (!worksIn(pid, cluster.data)) {
    // PostgreSQL replaces only a lock whose process id is not in use. Here, another program has the id, so the lock is removed.
    // Its text is compared first, because another process may have removed the lock and started a server in the meantime.
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
 * Starts the server, on `port` if given. Stops the server if `use` fails or is interrupted. If two processes start the server
 * concurrently, PostgreSQL's own lock lets one of them succeed, and the other fails as `Busy`.
 */
export const start = Effect.fnUntraced(function* <A, R>(
  cluster: Cluster,
  use: (server: Server) => Effect.Effect<A, EmbeddedPostgresError, R>,
  port?: number
): Effect.fn.Return<A, EmbeddedPostgresError, R> {
  if ((statSync(cluster.log, { throwIfNoEntry: false })?.size ?? 0) > maxLogSize) truncateSync(cluster.log)
  const settings = {
    port: port ?? (yield* newPort),
    listen_addresses: "127.0.0.1",
    unix_socket_directories: "",
    timezone: "UTC",
    log_timezone: "UTC",
    // The move of a project to another database uses logical replication (contract §18).
    wal_level: "logical",
    ...cluster.flags
  }
  const options = Object.entries(settings).map(([name, value]) => `--${name}=${value}`)
  const before = textOf(lockOf(cluster))
  // In a container, the server before a crash may have had the same process id, so the old lock may contain this id, too.
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
        Effect.flatMap(use)
      ),
    ({ pid, unref }, exit) => (Exit.isSuccess(exit) ? Effect.sync(unref) : stop(pid))
  )
})

// SIGINT has a long limit, because the last checkpoint of a large database takes time. If the checkpoint is cut off, the
// next start takes longer, because it recovers from the write-ahead log.
const stopSignals = [
  ["SIGINT", "60 seconds"],
  ["SIGQUIT", "10 seconds"],
  ["SIGKILL", "10 seconds"]
] as const

/** Stops a server: first by a fast shutdown, which ends all sessions; if this takes too long, by a stronger signal. */
export const stop = Effect.fnUntraced(function* (pid: number) {
  for (const [name, limit] of stopSignals) {
    if (!isRunning(pid)) return
    signal(pid, name)
    yield* untilEnded(pid, "20 millis").pipe(Effect.timeoutOption(limit))
  }
})

/** Size in bytes above which a start empties the log. A program that still has the log open appends to the empty file. */
const maxLogSize = 10 * 1024 * 1024

// The ports are below the ephemeral range. A client that reconnects while the server is down gets an ephemeral port. If it were
// the server's port, the client would connect to itself.
const newPort = Random.nextIntBetween(20_000, 30_000)

const lockOf = ({ data }: Cluster) => Path.join(data, "postmaster.pid")

const parse = (text: string) => {
  const [pid = "", , , port, , , , status] = text.split("\n")
  // A server in single-user mode writes its process id as a negative number.
  return { text, pid: Math.abs(Number.parseInt(pid, 10)), port: Number(port), isReady: status?.trim() === "ready" }
}

/**
 * Whether the working directory of a process is `data`, as it is for the server of `data`. Otherwise the server is dead, and
 * another program has its process id. Returns true if the operating system does not show the working directory.
 */
const worksIn = (pid: number, data: string): boolean => {
  try {
    return readlinkSync(`/proc/${pid}/cwd`) === data
  } catch {
    return true
  }
}

// What PostgreSQL logs at a temporary failure: another process has started the server, sessions of a killed server still hold
// shared memory, or the port is taken.
const busy =
  /lock file "postmaster\.pid" (already exists|is empty)|shared memory block .* is still in use|could not create any TCP/

const startFailure = (cluster: Cluster, pid: number, logged: ReadonlyArray<string>, ended: string) => {
  // Several servers may write to the log. Each line contains the process id of its server.
  const own = logged.filter((line) => line.includes(`[${pid}]`)).join("\n")
  const words = /FATAL: +(.*)/.exec(own)?.[1] ?? logged.at(-1) ?? "no message"
  return new EmbeddedPostgresError({
    reason: busy.test(own) || ended.startsWith("signal") ? "Busy" : "Failed",
    message: `PostgreSQL did not start (${ended}): ${words}; see ${cluster.log}`
  })
}
