import { Effect, Schedule } from "effect"
import { readFile, readlink, rm, stat } from "node:fs/promises"
import * as Net from "node:net"
import * as Path from "node:path"
import { isRunning } from "./Processes.ts"

/** The content of `postmaster.pid`, which describes the server of a data directory. */
export interface LockFile {
  readonly pid: number
  /** Start time in seconds since 1970. With the process id it identifies a server. */
  readonly started: string
  readonly port: number
  /** `starting`, `ready`, `stopping` … */
  readonly status: string
}

/** Reads the lock file, without checking whether its server runs. */
export const read = (data: string): Effect.Effect<LockFile | undefined> =>
  Effect.map(textOf(pathIn(data)), (text) => (text === undefined ? undefined : parse(text)))

/** Returns the lock of a running server. Removes a stale lock file that PostgreSQL would not remove. */
export const live = Effect.fnUntraced(function* (data: string): Effect.fn.Return<LockFile | undefined> {
  const path = pathIn(data)
  const text = yield* textOf(path)
  if (text === undefined) return undefined
  const lock = parse(text)
  if (lock === undefined) {
    // Either the server is writing the file now, or a machine crash has left an empty one, which no other process
    // removes.
    yield* removeIfOld(path)
    return undefined
  }
  // PostgreSQL itself replaces the lock of a dead process, without races.
  if (!(yield* isRunning(lock.pid))) return undefined
  if (yield* serves(data, lock)) return lock
  // The process id now belongs to an unrelated program, which PostgreSQL would take for a server.
  yield* removeIfSame(path, text)
  return undefined
})

const pathIn = (data: string) => Path.join(data, "postmaster.pid")

const textOf = (path: string) => Effect.promise(() => readFile(path, "utf8").catch(() => undefined))

const parse = (text: string): LockFile | undefined => {
  const lines = text.split("\n")
  const pid = Math.abs(Number.parseInt(lines[0] ?? "", 10))
  const port = Number.parseInt(lines[3] ?? "", 10)
  return pid > 0 && port > 0
    ? { pid, started: lines[2] ?? "", port, status: (lines[7] ?? "starting").trim() }
    : undefined
}

/**
 * Whether the process of a lock is a server of this data directory: its working directory is the data directory, or,
 * where the system does not show that, its port speaks PostgreSQL's protocol.
 */
const serves = Effect.fnUntraced(function* (data: string, lock: LockFile) {
  const workingDirectory = yield* Effect.promise(() => readlink(`/proc/${lock.pid}/cwd`).catch(() => undefined))
  if (workingDirectory !== undefined) return workingDirectory === data
  // A server that is stopping does not answer.
  if (lock.status === "stopping") return true
  // A server that is starting locks the directory shortly before it listens.
  return yield* answers(lock.port).pipe(
    Effect.repeat({ until: (answered) => answered, schedule: Schedule.spaced("100 millis"), times: 10 })
  )
})

const sslRequest = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47])

/** Sends an SSLRequest, which PostgreSQL answers with one letter before anything else. */
const answers = (port: number) =>
  Effect.callback<boolean>((resume) => {
    const socket = Net.connect({ host: "127.0.0.1", port, timeout: 1000 })
    const tell = (answer: boolean) => {
      socket.destroy()
      resume(Effect.succeed(answer))
    }
    socket.once("connect", () => socket.write(sslRequest))
    socket.once("data", (bytes) => tell(/^[SN]$/.test(bytes.toString("latin1"))))
    socket.once("error", () => tell(false))
    socket.once("close", () => tell(false))
    socket.once("timeout", () => tell(false))
  })

// The file's time is from the clock of the file system, so it is compared with the system's clock, not the fiber's.
const removeIfOld = (path: string) =>
  Effect.promise(async () => {
    const written = await stat(path).catch(() => undefined)
    if (written !== undefined && Date.now() - written.mtimeMs > 5000) await rm(path, { force: true })
  })

// Read again: another process may have removed the lock and started a server in the meantime.
const removeIfSame = (path: string, text: string) =>
  Effect.promise(async () => {
    const now = await readFile(path, "utf8").catch(() => undefined)
    if (now === text) await rm(path, { force: true })
  })
