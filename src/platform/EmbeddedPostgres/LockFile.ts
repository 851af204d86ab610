/** `postmaster.pid`, by which PostgreSQL locks a data directory and describes the server that runs on it. */
import { Effect, Schedule } from "effect"
import { readlinkSync, rmSync, statSync } from "node:fs"
import * as Path from "node:path"
import type { Cluster } from "./Cluster.ts"
import { isRunning, textOf } from "./Processes.ts"
import * as Session from "./Session.ts"

export interface LockFile {
  readonly pid: number
  /** Start time in seconds since 1970. With the process id it identifies a server. */
  readonly started: string
  readonly port: number
  /** `starting`, `ready`, `stopping` … */
  readonly status: string
}

const pathOf = ({ data }: Cluster) => Path.join(data, "postmaster.pid")

/** Reads the lock file, without checking whether its server runs. */
export const read = (cluster: Cluster): LockFile | undefined => parse(textOf(pathOf(cluster)))

const parse = (text: string): LockFile | undefined => {
  const lines = text.split("\n")
  const pid = Math.abs(Number.parseInt(lines[0] ?? "", 10))
  const port = Number.parseInt(lines[3] ?? "", 10)
  return pid > 0 && port > 0
    ? { pid, started: lines[2] ?? "", port, status: (lines[7] ?? "starting").trim() }
    : undefined
}

/** Returns the lock of a running server. Removes a stale lock file that PostgreSQL would not remove. */
export const live = Effect.fnUntraced(function* (cluster: Cluster): Effect.fn.Return<LockFile | undefined> {
  const path = pathOf(cluster)
  const text = textOf(path)
  const lock = parse(text)
  if (lock === undefined) {
    // Either the server is writing the file now, or a machine crash has left an empty one, which no other process
    // removes. Its age is in the clock of the system, not of the fiber; a time in the future was written before that clock
    // was set back.
    const written = statSync(path, { throwIfNoEntry: false })
    if (written !== undefined && Math.abs(Date.now() - written.mtimeMs) > 5_000) rmSync(path, { force: true })
    return undefined
  }
  // PostgreSQL itself replaces the lock of a dead process, without races.
  if (!(yield* isRunning(lock.pid))) return undefined
  if (yield* serves(cluster, lock)) return lock
  // The process id now belongs to an unrelated program, which PostgreSQL would take for a server. Read again, as another
  // process may have removed the lock and started a server in the meantime.
  if (textOf(path) === text) rmSync(path, { force: true })
  return undefined
})

/**
 * Whether the process of a lock is a server of this data directory: its working directory is the data directory, or,
 * where the system does not show that, PostgreSQL answers on its port.
 */
const serves = Effect.fnUntraced(function* (cluster: Cluster, { pid, port, status }: LockFile) {
  const workingDirectory = yield* Effect.option(Effect.try(() => readlinkSync(`/proc/${pid}/cwd`)))
  if (workingDirectory._tag === "Some") return workingDirectory.value === cluster.data
  // A server that is stopping does not answer.
  if (status === "stopping") return true
  // A server that is starting locks the directory shortly before it listens.
  return yield* Session.answers(cluster, { pid, port }).pipe(
    Effect.repeat({ until: (answered) => answered, schedule: Schedule.spaced("100 millis"), times: 10 })
  )
})
