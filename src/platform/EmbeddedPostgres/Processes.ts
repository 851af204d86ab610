/** Processes of the embedded PostgreSQL, and the error of everything that it needs from the system. */
import { type Duration, Effect, Schedule, Schema } from "effect"
import * as ChildProcess from "node:child_process"
import { closeSync, fstatSync, openSync, readFileSync } from "node:fs"

/**
 * The embedded PostgreSQL could not be created, started or reached. `message` is one line for a person; `reason` shows
 * whether a retry may help.
 * - `PortTaken`: another program listens on the port.
 * - `Busy`: temporary (another process starts or stops the server, or the remains of a dead one are being removed).
 * - `Failed`: permanent until an operator changes something.
 */
export class EmbeddedPostgresError extends Schema.TaggedError<EmbeddedPostgresError>()("EmbeddedPostgresError", {
  reason: Schema.Literals(["PortTaken", "Busy", "Failed"]),
  message: Schema.String,
  cause: Schema.optionalKey(Schema.Defect())
}) {}

/** A failure that only an operator can end. The message has the first line of the cause. */
const failed = (what: string, cause: unknown): EmbeddedPostgresError => {
  const [line = ""] = (cause instanceof Error ? cause.message : String(cause)).split("\n", 1)
  return new EmbeddedPostgresError({ reason: "Failed", message: `${what}: ${line}`, cause })
}

/** Runs synchronous calls of the system, which are few and short. `what` names the attempt in the error's message. */
export const attempt = <A>(what: string, run: () => A): Effect.Effect<A, EmbeddedPostgresError> =>
  Effect.try({ try: run, catch: (cause) => failed(what, cause) })

/** Returns the text of a file; empty if it cannot be read. */
export const textOf = (file: string): string => {
  try {
    return readFileSync(file, "utf8")
  } catch {
    return ""
  }
}

/** A program with its arguments, run as `account` if given. Never a shell string. */
export interface Command {
  readonly file: string
  readonly args: ReadonlyArray<string>
  readonly account?: { readonly uid: number; readonly gid: number }
}

/** A running child process. It keeps this process alive until `unref`. */
export interface Child {
  readonly pid: number
  /** The end of the process in words: `exit code 1`, `signal SIGKILL`. */
  readonly exited: Effect.Effect<string>
  /** Returns the lines that the log has gained since the start. */
  readonly logged: () => ReadonlyArray<string>
  readonly unref: () => void
}

// PostgreSQL needs none of this process's environment, which contains secrets. Windows programs cannot start without
// theirs.
const environment =
  process.platform === "win32" ? {} : { env: { PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" } }

/** Starts a program in its own process group, so that Ctrl-C does not reach it. Its output goes to `log`. */
export const spawn = Effect.fnUntraced(function* ({ account, args, file }: Command, log: string) {
  const output = yield* attempt(`Cannot write the PostgreSQL log ${log}`, () => openSync(log, "a", 0o600))
  const before = fstatSync(output).size
  return yield* Effect.callback<Child, EmbeddedPostgresError>((resume) => {
    const child = ChildProcess.spawn(file, args, {
      ...environment,
      ...account,
      cwd: "/",
      detached: true,
      stdio: ["ignore", output, output],
      windowsHide: true
    })
    closeSync(output)
    const exited = new Promise<string>((resolve) => {
      child.once("exit", (code, signal) => resolve(signal === null ? `exit code ${code}` : `signal ${signal}`))
    })
    const logged = () =>
      readFileSync(log)
        .subarray(before)
        .toString()
        .split("\n")
        .filter((line) => line.trim() !== "")
    child.once("error", (cause) => resume(failed(`Cannot run ${file}; see ${log}`, cause)))
    child.once("spawn", () => {
      const { pid } = child
      if (pid === undefined) return
      resume(Effect.succeed({ pid, exited: Effect.promise(() => exited), logged, unref: () => child.unref() }))
    })
  })
})

/** Sends a signal to a process or, by a negative pid, to a group. Errors are ignored: see `isRunning`. */
export const signal = (pid: number, name: NodeJS.Signals): Effect.Effect<void> =>
  Effect.ignore(Effect.try(() => process.kill(pid, name)))

/** Whether the process runs. A zombie (ended, but not reaped by its parent) does not. */
export const isRunning = (pid: number): Effect.Effect<boolean> =>
  Effect.sync(() => {
    try {
      process.kill(pid, 0)
    } catch (cause) {
      // EPERM: it runs as another user.
      if (!(cause instanceof Error && "code" in cause && cause.code === "EPERM")) return false
    }
    const state = textOf(`/proc/${pid}/stat`)
    // `pid (name) S …`: the name may contain blanks and brackets, so the state follows the last bracket.
    return !/^\) [ZX]/.test(state.slice(state.lastIndexOf(")")))
  })

/** Waits until the process has ended, checking at each `interval`. */
export const untilEnded = (pid: number, interval: Duration.Input): Effect.Effect<void> =>
  isRunning(pid).pipe(
    Effect.repeat({ while: (running) => running, schedule: Schedule.spaced(interval) }),
    Effect.asVoid
  )
