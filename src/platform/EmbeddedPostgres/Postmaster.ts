/** Starts, finds and stops the server of a cluster. */
import { Effect, Exit, Random } from "effect"
import { statSync, truncateSync } from "node:fs"
import * as Path from "node:path"
import type { Cluster } from "./Cluster.ts"
import * as LockFile from "./LockFile.ts"
import { type Child, EmbeddedPostgresError, isRunning, signal, spawn, textOf, untilEnded } from "./Processes.ts"
import type { Server } from "./Session.ts"

/**
 * Returns the running server of a cluster, or starts one, on `port` if given. Of two concurrent processes, PostgreSQL's
 * own lock decides which one starts it; the other fails as `Busy` and finds the server when it retries.
 */
export const serve = Effect.fnUntraced(function* (
  cluster: Cluster,
  port?: number
): Effect.fn.Return<Server, EmbeddedPostgresError> {
  const server = yield* running(cluster)
  if (server !== undefined) return server
  if ((statSync(cluster.log, { throwIfNoEntry: false })?.size ?? 0) > maxLogSize) truncateSync(cluster.log)
  if (port !== undefined) return yield* launch(cluster, port)
  const onNewPort = Effect.flatMap(newPort, (some) => launch(cluster, some)).pipe(
    Effect.retry({ while: isPortTaken, times: 20 })
  )
  const last = lastPort(cluster)
  return yield* last === undefined ? onNewPort : Effect.catchIf(launch(cluster, last), isPortTaken, () => onNewPort)
})

/** Returns the running server once it is ready; undefined if none runs. */
export const running = Effect.fnUntraced(function* (
  cluster: Cluster
): Effect.fn.Return<Server | undefined, EmbeddedPostgresError> {
  const lock = yield* LockFile.live(cluster)
  if (lock === undefined) return undefined
  const ended = new EmbeddedPostgresError({
    reason: "Busy",
    message: `PostgreSQL (process ${lock.pid}, ${lock.status}) has ended again; see ${cluster.log}`
  })
  return yield* ready(cluster, lock.pid, Effect.andThen(untilEnded(lock.pid, "100 millis"), Effect.fail(ended)))
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
    if (!(yield* isRunning(pid))) return
    yield* signal(pid, name)
    yield* untilEnded(pid, "20 millis").pipe(Effect.timeoutOption(limit))
  }
})

/** Size above which a start empties the log. Writers append, so an open writer continues at its start. */
const maxLogSize = 10 * 1024 * 1024

// Below the range of ephemeral ports: from that range, a client that reconnects while the server is down may get this
// very port and connect to itself.
const newPort = Random.nextIntBetween(20_000, 30_000)

const isPortTaken = ({ reason }: EmbeddedPostgresError) => reason === "PortTaken"

/** The port of the last start, whose arguments PostgreSQL stores: clients of a server that has died may retry there. */
const lastPort = ({ data }: Cluster): number | undefined => {
  const port = /"-p" "(\d+)"/.exec(textOf(Path.join(data, "postmaster.opts")))?.[1]
  return port === undefined ? undefined : Number(port)
}

const launch = Effect.fnUntraced(function* (cluster: Cluster, port: number) {
  // In a container a server often has the same process id after a crash as before; the old lock is not its own.
  const old = LockFile.read(cluster)
  const settings = {
    listen_addresses: "127.0.0.1",
    unix_socket_directories: "",
    timezone: "UTC",
    log_timezone: "UTC",
    ...cluster.flags
  }
  const options = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`])
  const command = cluster.privileges.command(cluster.postgres, ["-D", cluster.data, "-p", String(port), ...options])
  return yield* Effect.acquireUseRelease(
    spawn(command, cluster.log),
    (child) => {
      const ended = Effect.flatMap(child.exited, (how) => Effect.fail(startFailure(cluster, child, how)))
      return ready(cluster, child.pid, ended, old)
    },
    // A server that did not get ready, or whose start was interrupted, is stopped.
    (child, exit) => (Exit.isSuccess(exit) ? Effect.sync(child.unref) : stop(child.pid))
  )
})

/** Waits until the server accepts connections, or `ended` fails. `old` is the lock of an earlier server. */
const ready = (
  cluster: Cluster,
  pid: number,
  ended: Effect.Effect<never, EmbeddedPostgresError>,
  old?: LockFile.LockFile
): Effect.Effect<Server, EmbeddedPostgresError> =>
  Effect.sync(() => LockFile.read(cluster)).pipe(
    Effect.delay("25 millis"),
    Effect.repeat({
      until: (lock): lock is LockFile.LockFile =>
        lock?.pid === pid && lock.status === "ready" && !(old?.pid === pid && old.started === lock.started)
    }),
    Effect.map(({ port }) => ({ pid, port })),
    Effect.raceFirst(ended),
    // Recovery after a crash may take minutes.
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
  )

// Another process started first, or sessions of a killed server still hold its shared memory.
const busy = /lock file "postmaster\.pid" (already exists|is empty)|shared memory block .* is still in use/

/** Returns the reason why a started server has ended, from its last log lines. */
const startFailure = ({ log }: Cluster, { logged, pid }: Child, ended: string): EmbeddedPostgresError => {
  const lines = logged()
  // Several processes may write to the log; each line has its process id.
  const own = lines.filter((line) => line.includes(`[${pid}]`)).join("\n")
  const words = /FATAL: +(.*)/.exec(own)?.[1] ?? lines.at(-1) ?? "no message"
  const isPortTaken = own.includes("could not create any TCP/IP sockets")
  return new EmbeddedPostgresError({
    reason: isPortTaken ? "PortTaken" : busy.test(own) || ended.startsWith("signal") ? "Busy" : "Failed",
    message: `PostgreSQL did not start (${ended}): ${words}; see ${log}`
  })
}
