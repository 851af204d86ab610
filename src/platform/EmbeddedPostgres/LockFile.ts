import { Effect, Schedule } from "effect"
import { readFile, readlink, rm, stat } from "node:fs/promises"
import * as Net from "node:net"
import * as Path from "node:path"
import { isRunning } from "./Processes.ts"

/** What `postmaster.pid` says of the server that holds the data directory. */
export interface LockFile {
  readonly pid: number
  /** When it started, in seconds since 1970: with the process id, this tells one server from another. */
  readonly started: string
  readonly port: number
  /** `starting`, `ready`, `stopping` … */
  readonly status: string
}

/** What lies there, of whomever it speaks. */
export const read = (data: string): Effect.Effect<LockFile | undefined> =>
  Effect.map(textOf(pathIn(data)), (text) => (text === undefined ? undefined : parse(text)))

/** The lock of a server that lives. Whatever else lies there is no lock, and is cleared where PostgreSQL would not. */
export const live = Effect.fnUntraced(function* (data: string): Effect.fn.Return<LockFile | undefined> {
  const path = pathIn(data)
  const text = yield* textOf(path)
  if (text === undefined) return undefined
  const lock = parse(text)
  if (lock === undefined) {
    // The server is writing it just now, or a machine crash has left an empty one, which nobody else would remove.
    yield* removeIfOld(path)
    return undefined
  }
  // PostgreSQL itself replaces the lock of a dead process, and does so without races.
  if (!(yield* isRunning(lock.pid))) return undefined
  if (yield* serves(data, lock)) return lock
  // The process id has passed to an unrelated program, which PostgreSQL would take for a server.
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

/** A server works in its data directory; where the system does not tell, its port must speak PostgreSQL's protocol. */
const serves = Effect.fnUntraced(function* (data: string, lock: LockFile) {
  const workingDirectory = yield* Effect.promise(() => readlink(`/proc/${lock.pid}/cwd`).catch(() => undefined))
  if (workingDirectory !== undefined) return workingDirectory === data
  // One that is stopping answers no more.
  if (lock.status === "stopping") return true
  // One that is starting takes the lock a moment before it listens.
  return yield* answers(lock.port).pipe(
    Effect.repeat({ until: (answered) => answered, schedule: Schedule.spaced("100 millis"), times: 10 })
  )
})

const sslRequest = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47])

/** Asks for TLS, which PostgreSQL answers with one letter, yes or no, before anything else. */
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

// The file system's clock wrote that time, so the machine's is asked, too, and not the fiber's.
const removeIfOld = (path: string) =>
  Effect.promise(async () => {
    const written = await stat(path).catch(() => undefined)
    if (written !== undefined && Date.now() - written.mtimeMs > 5000) await rm(path, { force: true })
  })

// Read again: another process may have cleared the lock and started a server in the meantime.
const removeIfSame = (path: string, text: string) =>
  Effect.promise(async () => {
    const now = await readFile(path, "utf8").catch(() => undefined)
    if (now === text) await rm(path, { force: true })
  })
