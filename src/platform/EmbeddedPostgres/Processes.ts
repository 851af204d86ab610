import { type Duration, Effect, Schedule } from "effect"
import * as ChildProcess from "node:child_process"
import { open, readFile } from "node:fs/promises"
import { attempt, EmbeddedPostgresError } from "./EmbeddedPostgresError.ts"

/** A user account. */
export interface Account {
  readonly uid: number
  readonly gid: number
}

/** A program with its arguments, run as `account` if given. Never a shell string. */
export interface Command {
  readonly file: string
  readonly args: ReadonlyArray<string>
  readonly account?: Account
}

/** A running child process. It keeps this process alive until `unref`. */
export interface Child {
  readonly pid: number
  /** The end of the process in words: `exit code 1`, `signal SIGKILL`. */
  readonly exited: Effect.Effect<string>
  readonly unref: () => void
}

// PostgreSQL needs none of this process's environment, which contains secrets. Windows programs cannot start without
// theirs.
const environment =
  process.platform === "win32" ? {} : { env: { PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" } }

/** Starts a program in its own process group, so that Ctrl-C does not reach it. Its output goes to `log`. */
export const spawn = (command: Command, log: string): Effect.Effect<Child, EmbeddedPostgresError> =>
  Effect.acquireUseRelease(
    attempt(`Cannot write the PostgreSQL log ${log}`, () => open(log, "a", 0o600)),
    (file) =>
      Effect.callback<Child, EmbeddedPostgresError>((resume) => {
        const child = ChildProcess.spawn(command.file, command.args, {
          ...environment,
          ...command.account,
          cwd: "/",
          detached: true,
          stdio: ["ignore", file.fd, file.fd],
          windowsHide: true
        })
        const exited = new Promise<string>((resolve) => {
          child.once("exit", (code, signal) => resolve(signal === null ? `exit code ${code}` : `signal ${signal}`))
        })
        child.on("error", (cause) => {
          resume(
            new EmbeddedPostgresError({
              reason: "Failed",
              message: `Cannot run ${command.file}: ${cause.message}; see ${log}`,
              cause
            })
          )
        })
        child.once("spawn", () => {
          if (child.pid === undefined) return
          const unref = () => child.unref()
          resume(Effect.succeed({ pid: child.pid, exited: Effect.promise(() => exited), unref }))
        })
      }),
    (file) => Effect.promise(() => file.close())
  )

/** Sends a signal to a process or, by a negative pid, to a group. Errors are ignored. */
export const signal = (pid: number, name: NodeJS.Signals): Effect.Effect<void> =>
  Effect.sync(() => {
    try {
      process.kill(pid, name)
    } catch {
      // ESRCH or EPERM: `isRunning` shows whether the process has ended.
    }
  })

/** Whether the process runs. A zombie (ended, but not reaped by its parent) does not. */
export const isRunning = (pid: number): Effect.Effect<boolean> =>
  Effect.promise(async () => {
    try {
      process.kill(pid, 0)
    } catch (cause) {
      // EPERM: it runs as another user.
      if (!(cause instanceof Error && "code" in cause && cause.code === "EPERM")) return false
    }
    const state = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "")
    // `pid (name) S …`: the name may contain blanks and brackets, so the state follows the last bracket.
    return !/^\) [ZX]/.test(state.slice(state.lastIndexOf(")")))
  })

/** Waits until the process has ended, checking at each `interval`. */
export const gone = (pid: number, interval: Duration.Input): Effect.Effect<void> =>
  isRunning(pid).pipe(
    Effect.repeat({ while: (running) => running, schedule: Schedule.spaced(interval) }),
    Effect.asVoid
  )
