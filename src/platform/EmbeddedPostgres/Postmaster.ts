import { Effect, Exit, Random } from "effect"
import { readFile } from "node:fs/promises"
import * as Path from "node:path"
import type { Cluster } from "./Cluster.ts"
import { EmbeddedPostgresError } from "./EmbeddedPostgresError.ts"
import * as LockFile from "./LockFile.ts"
import * as Log from "./Log.ts"
import { gone, isRunning, signal, spawn } from "./Processes.ts"

/** A server that accepts connections on 127.0.0.1. */
export interface Server {
  readonly pid: number
  readonly port: number
}

/**
 * Returns the running server of a cluster, or starts one, on `port` if given. Of two concurrent processes, PostgreSQL's
 * own lock decides which one starts it; the other fails as `Busy` and finds the server when it retries.
 */
export const serve = Effect.fnUntraced(function* (
  cluster: Cluster,
  port?: number
): Effect.fn.Return<Server, EmbeddedPostgresError> {
  const server = yield* running(cluster)
  return server ?? (yield* start(cluster, port))
})

/** Returns the running server once it is ready; undefined if none runs. */
export const running = Effect.fnUntraced(function* (
  cluster: Cluster
): Effect.fn.Return<Server | undefined, EmbeddedPostgresError> {
  const lock = yield* LockFile.live(cluster.data)
  if (lock === undefined) return undefined
  const wentAway = new EmbeddedPostgresError({
    reason: "Busy",
    message: `PostgreSQL (process ${lock.pid}, ${lock.status}) went away again; see ${cluster.log}`
  })
  const stopped = Effect.andThen(gone(lock.pid, "100 millis"), Effect.fail(wentAway))
  return yield* Effect.raceFirst(ready(cluster, lock.pid), stopped).pipe(withStartTimeout(cluster))
})

/** Stops a server fast (sessions end, their commits are kept), and harder when that takes too long. */
export const stop = Effect.fnUntraced(function* (pid: number) {
  for (const [name, limit] of stopping) {
    if (!(yield* isRunning(pid))) return
    yield* signal(pid, name)
    yield* gone(pid, "20 millis").pipe(Effect.timeoutOption(limit))
  }
})

// The last checkpoint of a large database takes time; without it, the next start recovers from the log.
const stopping = [
  ["SIGINT", "60 seconds"],
  ["SIGQUIT", "10 seconds"],
  ["SIGKILL", "10 seconds"]
] as const

const start = Effect.fnUntraced(function* (cluster: Cluster, port: number | undefined) {
  yield* Log.truncateIfLarge(cluster.log)
  if (port !== undefined) return yield* launch(cluster, port)
  // Prefers the last port: clients of a server that has just died may retry there.
  const last = yield* lastPort(cluster)
  const onNewPort = Effect.flatMap(somePort, (some) => launch(cluster, some)).pipe(
    Effect.retry({ while: portTaken, times: 20 })
  )
  return last === undefined
    ? yield* onNewPort
    : yield* launch(cluster, last).pipe(Effect.catchIf(portTaken, () => onNewPort))
})

const portTaken = (error: EmbeddedPostgresError) => error.reason === "PortTaken"

// Below the range of ephemeral ports: from that range, a client that reconnects while the server is down may get this
// very port and connect to itself.
const somePort = Random.nextIntBetween(20000, 30000)

/** PostgreSQL stores the arguments of its last start. */
const lastPort = (cluster: Cluster) =>
  Effect.promise(async () => {
    const options = await readFile(Path.join(cluster.data, "postmaster.opts"), "utf8").catch(() => "")
    const port = /"-p" "(\d+)"/.exec(options)?.[1]
    return port === undefined ? undefined : Number(port)
  })

const launch = (cluster: Cluster, port: number) =>
  Effect.gen(function* () {
    const from = yield* Log.sizeOf(cluster.log)
    // In a container a server often has the same process id after a crash as before; the old lock is not its own.
    const remains = yield* LockFile.read(cluster.data)
    return yield* Effect.acquireUseRelease(
      spawn(cluster.privileges.command(cluster.postgres, serverArguments(cluster, port)), cluster.log),
      (child) =>
        Effect.raceFirst(
          ready(cluster, child.pid, remains),
          Effect.flatMap(child.exited, (ended) => startFailure(cluster, child.pid, ended, from))
        ).pipe(withStartTimeout(cluster)),
      // A server that did not get ready, or whose start was interrupted, is stopped.
      (child, exit) => (Exit.isSuccess(exit) ? Effect.sync(child.unref) : stop(child.pid))
    )
  })

/** Maximum duration of a start. Recovery after a crash may take minutes. */
const withStartTimeout = (cluster: Cluster) =>
  Effect.timeoutOrElse({
    duration: "5 minutes",
    orElse: () =>
      Effect.fail(
        new EmbeddedPostgresError({
          reason: "Failed",
          message: `PostgreSQL was not ready within 5 minutes; see ${cluster.log}`
        })
      )
  })

const serverArguments = (cluster: Cluster, port: number) => {
  const settings = {
    listen_addresses: "127.0.0.1",
    unix_socket_directories: "",
    timezone: "UTC",
    log_timezone: "UTC",
    ...cluster.flags
  }
  return [
    "-D",
    cluster.data,
    "-p",
    String(port),
    ...Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`])
  ]
}

/** Waits until the server with this process id accepts connections. `remains` is the lock of an earlier server. */
const ready = (cluster: Cluster, pid: number, remains?: LockFile.LockFile): Effect.Effect<Server> =>
  LockFile.read(cluster.data).pipe(
    Effect.delay("25 millis"),
    Effect.repeat({
      until: (lock): lock is LockFile.LockFile =>
        lock?.pid === pid && lock.status === "ready" && !(remains?.pid === pid && remains.started === lock.started)
    }),
    Effect.map(({ port }) => ({ pid, port }))
  )

/** Returns the reason why a started server has ended, from its last log lines. */
const startFailure = Effect.fnUntraced(function* (cluster: Cluster, pid: number, ended: string, from: number) {
  const lines = yield* Log.linesFrom(cluster.log, from)
  // Several processes may write to the log; each line has its process id.
  const own = lines.filter((line) => line.includes(`[${pid}]`)).join("\n")
  const words = /FATAL: +(.*)/.exec(own)?.[1] ?? lines.at(-1) ?? "no message"
  return yield* new EmbeddedPostgresError({
    reason: own.includes("could not create any TCP/IP sockets")
      ? "PortTaken"
      : busy.test(own) || ended.startsWith("signal")
        ? "Busy"
        : "Failed",
    message: `PostgreSQL did not start (${ended}): ${words}; see ${cluster.log}`
  })
})

// Another process started first, or sessions of a killed server still hold its shared memory.
const busy = /lock file "postmaster\.pid" (already exists|is empty)|shared memory block .* is still in use/
