/** Directories, processes and sessions for the tests of the embedded PostgreSQL. All end with the test. */
import { PgConnection } from "@effect/sql-pg"
import { Effect, Redacted, Schedule, type Scope } from "effect"
import * as ChildProcess from "node:child_process"
import * as Fs from "node:fs"
import * as Path from "node:path"
import { EmbeddedPostgres } from "../../../src/sql/embedded/EmbeddedPostgres.ts"
import { textOf } from "../../../src/sql/embedded/Processes.ts"
import * as Server from "../../../src/sql/embedded/Server.ts"
import { openDirectory } from "../../support/Postgres.ts"
import { until } from "../../support/Waiting.ts"

export const checkout = Path.resolve(import.meta.dirname, "../../..")

/** Whether the users of tests may run this checkout: its directory, and those above it, are open to others. */
export const isOpen = (directory: string): boolean =>
  (Fs.statSync(directory).mode & 0o001) !== 0 && (directory === "/" || isOpen(Path.dirname(directory)))

const flags = { fsync: "off" }

/** A running server. */
interface Running {
  readonly pid: number
  readonly port: number
  readonly url: string
}

/** A directory that every user may enter. At the end its server is stopped, and it is removed. */
export const temporaryDirectory = Effect.acquireRelease(
  Effect.promise(async () => Fs.realpathSync(await openDirectory("embedded-postgres-test-"))),
  (directory) =>
    Effect.gen(function* () {
      const lock = lockOf(directory)
      if (lock !== undefined) yield* Server.stop(lock.pid)
      Fs.rmSync(directory, { recursive: true, force: true, maxRetries: 5 })
    })
)

/** Reads `postmaster.pid`; undefined if there is none. */
export const lockOf = (
  directory: string
): { readonly pid: number; readonly port: number; readonly sockets: string | undefined } | undefined => {
  const path = Path.join(directory, "postgres", "postmaster.pid")
  const text = textOf(path)
  if (text === "") return undefined
  const lines = text.split("\n")
  return { pid: Number(lines[0]), port: Number(lines[3]), sockets: lines[4] }
}

/** Uses the layer in this process, as a command does unless `usedBy` is given. */
export const using = <A, E>(
  directory: string,
  use: (running: Running) => Effect.Effect<A, E, Scope.Scope>,
  usedBy: "service" | "command" = "command"
) =>
  Effect.gen(function* () {
    const { url } = yield* EmbeddedPostgres
    return yield* use(running(directory, Redacted.value(url)))
  }).pipe(Effect.provide(EmbeddedPostgres.layer({ directory, flags, usedBy }), { local: true }))

const running = (directory: string, url: string): Running => ({
  pid: lockOf(directory)?.pid ?? 0,
  port: Number(new URL(url).port),
  url
})

/** Uses the layer in another process, as a service, until that is stopped; `ready` waits for its URL. */
export const service = (
  directory: string,
  options?: { readonly from?: string; readonly as?: string; readonly usedBy?: "command" }
) =>
  Effect.gen(function* () {
    const script = `
      import { NodeRuntime } from "@effect/platform-node"
      import { Console, Effect, Redacted } from "effect"
      import { EmbeddedPostgres } from "./src/sql/embedded/EmbeddedPostgres.ts"
      EmbeddedPostgres.pipe(
        Effect.andThen(({ url }) => Console.log("url=" + Redacted.value(url))),
        Effect.andThen(Effect.never),
        Effect.provide(EmbeddedPostgres.layer(${JSON.stringify({ directory, flags, usedBy: options?.usedBy ?? "service" })})),
        NodeRuntime.runMain
      )`
    const node = [process.execPath, "--input-type=module", "--eval", script]
    const [file = "", ...args] = options?.as === undefined ? node : ["setpriv", ...identity(options.as), ...node]
    const child = yield* Effect.acquireRelease(
      Effect.sync(() => ChildProcess.spawn(file, args, { cwd: options?.from ?? checkout, stdio: "pipe" })),
      (child) => Effect.sync(() => child.kill("SIGKILL"))
    )
    let output = ""
    child.stdout.on("data", (bytes) => (output += String(bytes)))
    child.stderr.on("data", (bytes) => (output += String(bytes)))
    const ready = Effect.suspend(() => {
      const url = /url=(\S+)/.exec(output)?.[1]
      return url === undefined ? Effect.fail(`not ready: ${output}`) : Effect.succeed(running(directory, url))
    }).pipe(Effect.retry(Schedule.spaced("20 millis").pipe(Schedule.upTo({ duration: "60 seconds" }))))
    return { child, ready, output: () => output }
  })

const identity = (user: string) => [`--reuid=${user}`, `--regid=${user}`, "--clear-groups"]

export const connect = (url: string) => PgConnection.make({ url: Redacted.make(url) })

export const query = (url: string, sql: string) =>
  Effect.scoped(Effect.flatMap(connect(url), (session) => session.query(sql))).pipe(Effect.map(({ rows }) => rows))

/** Waits until the server of a directory has been shut down. */
export const isStopped = (directory: string) => until(() => lockOf(directory) === undefined)

/** Starts a program unrelated to PostgreSQL, which may have the same user; waits for its first output. */
export const unrelatedProcess = (script: string, account?: { readonly uid: number; readonly gid: number }) =>
  Effect.acquireRelease(
    Effect.callback<ChildProcess.ChildProcess & { readonly first: string }>((resume) => {
      const child = ChildProcess.spawn("sh", ["-c", script], { ...account, cwd: "/", stdio: "pipe" })
      child.stdout.once("data", (bytes) => resume(Effect.succeed(Object.assign(child, { first: String(bytes) }))))
    }),
    (child) => Effect.sync(() => child.kill())
  )
