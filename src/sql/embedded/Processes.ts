import { type Duration, Effect, Schedule, Schema } from "effect"
import * as ChildProcess from "node:child_process"
import { closeSync, fstatSync, openSync, readFileSync } from "node:fs"

/**
 * The embedded PostgreSQL could not be created, started or reached. `message` is one line for an operator. `reason` shows
 * whether a retry may help:
 * - `Busy`: the problem is temporary. For example, another process starts or stops the server, sessions of a dead server still
 *   exist, or a port is taken.
 * - `Failed`: the problem stays until an operator changes something.
 */
export class EmbeddedPostgresError extends Schema.TaggedError<EmbeddedPostgresError>()("EmbeddedPostgresError", {
  reason: Schema.Literals(["Busy", "Failed"]),
  message: Schema.String,
  cause: Schema.optionalKey(Schema.Defect())
}) {}

/** Runs short synchronous system calls. `what` describes what failed, and is the beginning of the error's message. */
export const attempt = <A>(what: string, run: () => A): Effect.Effect<A, EmbeddedPostgresError> =>
  Effect.try({
    try: run,
    catch: (cause) => {
      const [line = ""] = (cause instanceof Error ? cause.message : String(cause)).split("\n", 1)
      return new EmbeddedPostgresError({ reason: "Failed", message: `${what}: ${line}`, cause })
    }
  })

export const textOf = (file: string): string => {
  try {
    return readFileSync(file, "utf8")
  } catch {
    return ""
  }
}

// PostgreSQL does not need the environment of this process, which contains secrets.
const env = { PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" }

/**
 * Starts a program in a new process group, so that Ctrl-C does not reach it. Its output is appended to `log`. `ended` waits until
 * the program has ended and returns how, for example `exit code 1`. `logged` returns the lines that the log has gained since the
 * start. This process does not exit while the program runs, unless `unref` is called.
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

/** Sends a signal to a process, or to a process group if `pid` is negative. Returns whether the signal could be sent. */
export const signal = (pid: number, name: NodeJS.Signals | 0): boolean => {
  try {
    return process.kill(pid, name)
  } catch {
    return false
  }
}

/**
 * Whether the process runs and this process may signal it. A zombie, which has ended but was not reaped by its parent, does
 * not run.
 */
export const isRunning = (pid: number): boolean => {
  const state = textOf(`/proc/${pid}/stat`)
  // The format is `pid (name) S …`. The name may contain parentheses, so the state is what follows the last one.
  return signal(pid, 0) && !/^\) [ZX]/.test(state.slice(state.lastIndexOf(")")))
}

export const untilEnded = (pid: number, interval: Duration.Input): Effect.Effect<void> =>
  Effect.sync(() => isRunning(pid)).pipe(
    Effect.repeat({ while: (running) => running, schedule: Schedule.spaced(interval) }),
    Effect.asVoid
  )
