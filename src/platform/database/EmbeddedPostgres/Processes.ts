/** Processes of the embedded PostgreSQL, and the error of everything that it needs from the system. */
import { type Duration, Effect, Schedule, Schema } from "effect"
import * as ChildProcess from "node:child_process"
import { closeSync, fstatSync, openSync, readFileSync } from "node:fs"

/**
 * The embedded PostgreSQL could not be created, started or reached. `message` is one line for a person; `reason` shows
 * whether a retry may help.
 * - `Busy`: temporary (another process starts or stops the server, the remains of a dead one are being removed, or a port
 *   is taken).
 * - `Failed`: permanent until an operator changes something.
 */
export class EmbeddedPostgresError extends Schema.TaggedError<EmbeddedPostgresError>()("EmbeddedPostgresError", {
  reason: Schema.Literals(["Busy", "Failed"]),
  message: Schema.String,
  cause: Schema.optionalKey(Schema.Defect())
}) {}

/** Runs a few short system calls, which are synchronous. The message of the error begins with `what`. */
export const attempt = <A>(what: string, run: () => A): Effect.Effect<A, EmbeddedPostgresError> =>
  Effect.try({
    try: run,
    catch: (cause) => {
      const [line = ""] = (cause instanceof Error ? cause.message : String(cause)).split("\n", 1)
      return new EmbeddedPostgresError({ reason: "Failed", message: `${what}: ${line}`, cause })
    }
  })

/** Returns the text of a file; empty if it cannot be read. */
export const textOf = (file: string): string => {
  try {
    return readFileSync(file, "utf8")
  } catch {
    return ""
  }
}

// PostgreSQL needs none of this process's environment, which contains secrets.
const env = { PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" }

/**
 * Starts a program in its own process group, so that Ctrl-C does not reach it. Its output goes to `log`. `ended` waits for its
 * end, in words such as `exit code 1`; `logged` returns the lines that the log has gained. The child keeps this process alive
 * until `unref`.
 */
export const spawn = ([file = "", ...args]: ReadonlyArray<string>, log: string) =>
  attempt(`Cannot run ${file} with the log ${log}`, () => {
    const output = openSync(log, "a", 0o600)
    const before = fstatSync(output).size
    const child = ChildProcess.spawn(file, args, { cwd: "/", env, detached: true, stdio: ["ignore", output, output] })
    closeSync(output)
    const ended = new Promise<string>((resolve) => {
      child.once("error", ({ message }) => resolve(message))
      child.once("exit", (code, signal) => resolve(signal === null ? `exit code ${code}` : `signal ${signal}`))
    })
    if (child.pid === undefined) throw new Error("the program is missing or cannot be executed")
    const lines = () => readFileSync(log).subarray(before).toString().split("\n")
    return {
      pid: child.pid,
      ended: Effect.promise(() => ended),
      logged: () => lines().filter((line) => line.trim() !== ""),
      unref: () => child.unref()
    }
  })

/** Sends a signal to a process or, by a negative pid, to a group. Returns whether there was one to get it. */
export const signal = (pid: number, name: NodeJS.Signals | 0): boolean => {
  try {
    return process.kill(pid, name)
  } catch {
    return false
  }
}

/**
 * Whether the process runs, as a user whose processes this one may signal. A zombie (ended, but not reaped by its parent)
 * does not run.
 */
export const isRunning = (pid: number): boolean => {
  const state = textOf(`/proc/${pid}/stat`)
  // `pid (name) S …`: the name may contain blanks and brackets, so the state follows the last bracket.
  return signal(pid, 0) && !/^\) [ZX]/.test(state.slice(state.lastIndexOf(")")))
}

/** Waits until the process has ended, checking at each `interval`. */
export const untilEnded = (pid: number, interval: Duration.Input): Effect.Effect<void> =>
  Effect.sync(() => isRunning(pid)).pipe(
    Effect.repeat({ while: (running) => running, schedule: Schedule.spaced(interval) }),
    Effect.asVoid
  )
