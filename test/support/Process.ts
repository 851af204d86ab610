/** The real service as a child process. No process that a test starts outlives the test. */
import { Effect } from "effect"
import * as ChildProcess from "node:child_process"
import { readdirSync, readFileSync } from "node:fs"
import { realpath, rm } from "node:fs/promises"
import * as Net from "node:net"
import * as Path from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import * as Server from "../../src/sql/embedded/Server.ts"
import { defer } from "./Finalizers.ts"
import { openDirectory } from "./Postgres.ts"
import { expectNoSecretOf } from "./Secrets.ts"
import { eventually } from "./Waiting.ts"

export const checkout = Path.resolve(import.meta.dirname, "../..")

// The tests run on Node 26 themselves.
const node = process.execPath

const children = new Set<ChildProcess.ChildProcess>()
const directories = new Set<string>()

// Ends children when the test process itself ends, because no hook runs then.
process.once("exit", () => {
  for (const child of children) child.kill("SIGKILL")
  for (const directory of directories) {
    const pid = postmasterOf(directory)
    if (pid !== undefined) kill(pid, "SIGQUIT")
  }
})

/** Signals a process that may have exited already. */
export const kill = (pid: number, signal: NodeJS.Signals): void => {
  try {
    process.kill(pid, signal)
  } catch {
    // It has exited.
  }
}

/** Returns state and parent of a process from /proc; undefined if it does not exist. */
const statOf = (pid: number) => {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8")
    // `pid (name) S …`: the name may contain blanks and brackets.
    const [state = "", parent] = text.slice(text.lastIndexOf(")") + 2).split(" ")
    return { state, parent: Number(parent) }
  } catch {
    return undefined
  }
}

/** Whether the process runs. A zombie does not. */
export const isRunning = (pid: number): boolean => !/^[ZX]?$/.test(statOf(pid)?.state ?? "")

/** Returns the resident memory of a process in MiB. */
export const residentMebibytes = (pid: number): number =>
  Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024

/** Returns the running children of a process. */
export const childrenOf = (pid: number): ReadonlyArray<number> =>
  readdirSync("/proc")
    .map(Number)
    .filter((child) => child > 0 && statOf(child)?.parent === pid && isRunning(child))

/**
 * Kills a PostgreSQL with all its processes, and waits until they have exited. The postmaster is suspended before its children are
 * listed: a child that it starts meanwhile could survive, and hold the shared memory while it waits for a lock of a killed one.
 */
export const killServer = async (postmaster: number): Promise<void> => {
  kill(postmaster, "SIGSTOP")
  // It is suspended in a moment. Tests kill at a certain step of another process, so nothing is awaited here.
  for (const began = Date.now(); !/^[TZX]?$/.test(statOf(postmaster)?.state ?? "");) {
    if (Date.now() > began + 10_000) throw new Error("The postmaster is not suspended")
  }
  const all = [postmaster, ...childrenOf(postmaster)]
  for (const pid of all) kill(pid, "SIGKILL")
  await eventually(() => {
    if (all.some(isRunning)) throw new Error("PostgreSQL is still running")
  })
}

/** Returns the process id of the PostgreSQL whose cluster is `<directory>/postgres`. */
export const postmasterOf = (directory: string): number | undefined => {
  try {
    return Number.parseInt(readFileSync(Path.join(directory, "postgres", "postmaster.pid"), "utf8"), 10)
  } catch {
    return undefined
  }
}

/** Creates a directory for one test; a PostgreSQL that runs in it is stopped before the directory is removed. */
export const temporaryDirectory = async (): Promise<string> => {
  const directory = await realpath(await openDirectory("developer-api-faults-"))
  directories.add(directory)
  defer(async () => {
    const pid = postmasterOf(directory)
    if (pid !== undefined) {
      kill(pid, "SIGCONT")
      await Effect.runPromise(Server.stop(pid))
    }
    await rm(directory, { recursive: true, force: true, maxRetries: 5 })
    directories.delete(directory)
  })
  return directory
}

/**
 * Each worker of the test runner has its own range of ports, and reuses a port only after all the others. The runner numbers
 * its workers from 1; the ranges of 22 workers are below the ports for outgoing connections.
 */
const ports = 1_000
const firstPort = 10_000 + (Number(process.env["VITEST_POOL_ID"] ?? 0) % 22) * ports
let nextPort = Math.floor(Math.random() * ports)

/**
 * Returns a free port below the range that systems use for outgoing connections. A port in that range could be assigned to a
 * client that connects to the port while its server is down, and the client would be connected to itself.
 */
export const freePort = async (): Promise<number> => {
  while (true) {
    const port = firstPort + (nextPort++ % ports)
    if (await isFree(port)) return port
  }
}

const isFree = (port: number) =>
  new Promise<boolean>((resolve) => {
    const server = Net.createServer().once("error", () => resolve(false))
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)))
  })

/** The end of a process. */
export interface Ended {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

/** What each process of a test inherits: where programs are, and the mutation of the source, if one is tested. */
export const inherited: Readonly<Record<string, string | undefined>> = {
  PATH: process.env["PATH"],
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => name.startsWith("MUTATION_"))),
  NODE_OPTIONS:
    process.env["MUTATION_FILE"] === undefined
      ? undefined
      : `--import ${new URL("../mutations/hooks.ts", import.meta.url).href}`
}

/** Starts a program that outlives the test. */
export const launch = (file: string, args: ReadonlyArray<string>, env: Readonly<Record<string, string>> = {}) => {
  const child = ChildProcess.spawn(file, args, {
    cwd: checkout,
    // The machine's settings do not reach the service.
    env: { ...inherited, HOME: process.env["HOME"], ...env },
    stdio: ["ignore", "pipe", "pipe"]
  })
  children.add(child)
  let stdout = ""
  let stderr = ""
  const watchers = new Set<() => void>()
  const notify = () => {
    for (const watcher of watchers) watcher()
  }
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout += text
    notify()
  })
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text
  })
  let over: Ended | undefined
  // `close` comes after the last output, `exit` may come before it.
  const exited = new Promise<Ended>((resolve, reject) => {
    child.once("error", reject)
    child.once("close", (code, signal) => {
      over = { code, signal }
      children.delete(child)
      resolve(over)
      notify()
    })
  })
  return {
    /** Kills it if it still runs, and asserts that it has not printed a secret. */
    end: async () => {
      child.kill("SIGCONT")
      child.kill("SIGKILL")
      await exited
      expectNoSecretOf(args, { stdout, stderr }, env)
    },
    pid: child.pid ?? 0,
    stdout: () => stdout,
    stderr: () => stderr,
    exited,
    hasExited: () => over !== undefined,
    kill: (signal: NodeJS.Signals) => child.kill(signal),
    /** Waits until standard output matches; fails with all output if the process ends before. */
    prints: (pattern: RegExp) =>
      new Promise<RegExpExecArray>((resolve, reject) => {
        const look = () => {
          const match = pattern.exec(stdout)
          if (match !== null) resolve(match)
          else if (over === undefined) return
          else
            reject(
              new Error(`The process ended (${over.signal ?? over.code}) without ${pattern}:\n${stdout}\n${stderr}`)
            )
          watchers.delete(look)
        }
        watchers.add(look)
        look()
      })
  }
}

export type Launched = ReturnType<typeof launch>

/** A child process that ends with its test, and all of its output. */
export type Running = Omit<Launched, "end">

/** Starts a program. It is killed when the test ends, and must not have printed a secret. */
export const spawn = (...command: Parameters<typeof launch>): Running => {
  const launched = launch(...command)
  defer(launched.end)
  return launched
}

interface ServiceOptions {
  /** The directory of its source; the default is this checkout. */
  readonly source?: string
  readonly env?: Readonly<Record<string, string>>
  /** Flags, as after `npm start --`. */
  readonly args?: ReadonlyArray<string>
}

/** Flags of Node with which the service is started everywhere; `src/service/Serve.ts` says why. */
export const nodeFlags = ["--max-semi-space-size=16"]

/** Starts the service as `npm start` does, without waiting for readiness; on any free port unless `PORT` is given. */
export const launchService = ({ args = [], env = {}, source = checkout }: ServiceOptions): Running =>
  spawn(node, [...nodeFlags, Path.join(source, "src/main.ts"), ...args], {
    PORT: "0",
    NODE_COMPILE_CACHE: Path.join(source, "node_modules/.cache/developer-api"),
    ...env
  })

/** The end of a process that shut down in good order. */
export const inGoodOrder: Ended = { code: 0, signal: null }

/** Waits until a process ends, for a limited time. */
export const ended = ({ exited }: Running, millis = 20_000): Promise<Ended | "still running"> =>
  Promise.race([exited, sleep(millis, "still running" as const, { ref: false })])

/** Starts the service and waits for its ready line. */
export const startService = async (options: ServiceOptions) => {
  const running = launchService(options)
  const [, url = ""] = await running.prints(/^listening on (http:\/\/\S+)$/m)
  return {
    ...running,
    url,
    /** Sends SIGTERM, and waits at most 20 s for the end. */
    stop: () => {
      running.kill("SIGTERM")
      return ended(running)
    }
  }
}

export type Service = Awaited<ReturnType<typeof startService>>

/** Runs a program to its end. */
export const runToEnd = async (file: string, args: ReadonlyArray<string>, env?: Readonly<Record<string, string>>) => {
  const running = spawn(file, args, env)
  return { ...(await running.exited), stdout: running.stdout(), stderr: running.stderr() }
}
