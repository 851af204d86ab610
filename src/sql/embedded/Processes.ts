/**
 * Programs of the embedded PostgreSQL, and the user that they run as. PostgreSQL refuses to run as root, so a process that runs as root
 * starts it as another user.
 */
import { type Duration, Effect, Schedule, Schema } from "effect"
import { closeSync, fstatSync, openSync, readFileSync, statSync } from "node:fs"
import * as ChildProcess from "node:child_process"
import * as Path from "node:path"

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

interface Account {
  readonly uid: number
  readonly gid: number
}

export interface Privileges {
  /** Makes PostgreSQL's user the owner of a directory and its content. Does nothing if that user owns the directory already. */
  readonly give: (directory: string) => Effect.Effect<void, EmbeddedPostgresError>
  /** The words before a command that run it as PostgreSQL's user. Empty if PostgreSQL runs as the user of this process. */
  readonly prefix: ReadonlyArray<string>
  /** Whether PostgreSQL's user may enter a directory. */
  readonly mayEnter: (directory: string) => boolean
}

/**
 * Finds the user that runs PostgreSQL. This is the user of this process, unless that is root. Then it is the owner of `data`, the
 * directory of the cluster. If root owns `data`, or `data` does not exist yet, it is `postgres`, or `nobody` if there is no `postgres`.
 *
 * Fails if this user cannot enter the directory above `data`, which exists.
 */
export const resolvePrivileges = Effect.fnUntraced(function* (
  data: string
): Effect.fn.Return<Privileges, EmbeddedPostgresError> {
  if (process.getuid?.() !== 0) return { give: () => Effect.void, prefix: [], mayEnter: () => true }
  const account = ownerOf(data) ?? accountNamed("postgres") ?? accountNamed("nobody")
  if (account === undefined) {
    return yield* failed(
      "PostgreSQL cannot run as root, and there is neither a user `postgres` nor `nobody` to run it as"
    )
  }
  const { gid, uid } = account
  const closed = yield* attempt(`Cannot examine ${Path.dirname(data)}`, () => closedAbove(account, Path.dirname(data)))
  if (closed !== undefined) {
    return yield* failed(
      `PostgreSQL cannot run as root, and the user ${uid} that runs it cannot enter ${closed}: set DATA_DIR to a folder ` +
        `elsewhere, such as /var/lib/developer-api, or open the folder (chmod o+x ${closed})`
    )
  }
  return {
    // `chown` changes the directory itself last. So after an interruption root still owns the directory, and the next call
    // repeats the change.
    give: (directory) =>
      attempt(`Cannot give ${directory} to user ${uid}`, () => {
        if (statSync(directory).uid !== uid) ChildProcess.execFileSync("chown", ["-Rh", `${uid}:${gid}`, directory])
      }),
    prefix: ["setpriv", `--reuid=${uid}`, `--regid=${gid}`, "--clear-groups", "--"],
    mayEnter: (directory) => closedAbove(account, directory) === undefined
  }
})

const failed = (message: string) => new EmbeddedPostgresError({ reason: "Failed", message })

const ownerOf = (data: string): Account | undefined => {
  const owner = statSync(data, { throwIfNoEntry: false })
  return owner === undefined || owner.uid === 0 ? undefined : owner
}

// `id` also finds users of directory services such as LDAP, which are not in /etc/passwd.
const accountNamed = (name: string): Account | undefined => {
  const id = (option: string) =>
    Number(ChildProcess.execFileSync("id", [option, name], { stdio: ["ignore", "pipe", "ignore"] }))
  try {
    return { uid: id("-u"), gid: id("-g") }
  } catch {
    return undefined
  }
}

/** Returns the first directory of a path that the account may not enter; undefined if it may enter all of them. */
const closedAbove = (account: Account, directory: string): string | undefined => {
  const { gid, mode, uid } = statSync(directory)
  const traverse = uid === account.uid ? 0o100 : gid === account.gid ? 0o010 : 0o001
  const parent = Path.dirname(directory)
  const above = parent === directory ? undefined : closedAbove(account, parent)
  return above ?? ((mode & traverse) === 0 ? directory : undefined)
}
