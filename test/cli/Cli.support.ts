/** Runs commands as an operator does, and reads their exit status and output. */
import { NodeServices } from "@effect/platform-node"
import { ConfigProvider, Console, Effect, Layer, Redacted, Stdio, Stream } from "effect"
import { spawn } from "node:child_process"
import { randomBytes } from "node:crypto"
import * as Path from "node:path"
import { format } from "node:util"
import { commandsFor } from "../../src/cli/Commands.ts"
import { perform, teardown } from "../../src/cli/Run.ts"
import { inherited } from "../support/Process.ts"
import { expectNoSecretOf } from "../support/Secrets.ts"
import { TestDatabase } from "../support/TestDatabase.ts"

const root = Path.resolve(import.meta.dirname, "../..")

export interface Ended {
  readonly status: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface Options {
  readonly env?: Readonly<Record<string, string>>
  readonly stdin?: string | Uint8Array
  readonly entry?: "cli.ts" | "main.ts"
  /** Whether a command in this process writes to a terminal. */
  readonly terminal?: boolean
  /** A module that a process of its own loads before the command. */
  readonly hooks?: string
  /** A file or device that a process of its own has as its standard output. */
  readonly output?: string
}

/** Starts a command with only the given settings; kills it if it outlives its test. */
export const start = (
  args: ReadonlyArray<string>,
  { entry = "cli.ts", env = {}, hooks = "", output, stdin = "" }: Options = {}
) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() =>
        spawn(
          "sh",
          [
            "-c",
            output === undefined ? 'exec "$@"' : `exec "$@" > ${output}`,
            "sh",
            process.execPath,
            "--import",
            `data:text/javascript,${encodeURIComponent(hooks)}`,
            Path.join(root, "src", entry),
            ...args
          ],
          {
            cwd: root,
            env: { ...inherited, ...env }
          }
        )
      ),
      (child) => Effect.sync(() => child.kill("SIGKILL"))
    ),
    (child) => {
      // A command that reads no input may have ended before the write.
      child.stdin.on("error", () => undefined).end(stdin)
      const stdout = textOf(child.stdout)
      const stderr = textOf(child.stderr)
      const ended = new Promise<Ended>((resolve, reject) => {
        child.once("error", reject)
        child.once("close", (status) => resolve({ status, stdout: stdout(), stderr: stderr() }))
      })
      return { child, stdout, stderr, ended: Effect.promise(() => ended) }
    }
  )

/** Collects the text of a stream; the returned function reads it. */
const textOf = (stream: NodeJS.ReadableStream) => {
  let text = ""
  stream.setEncoding("utf8").on("data", (chunk: string) => (text += chunk))
  return () => text
}

/**
 * Runs a command to its end, in this process unless it starts a server: the service or an embedded database. Asserts
 * that it printed no secret.
 */
export const run = (args: ReadonlyArray<string>, options: Options = {}): Effect.Effect<Ended> =>
  (options.entry === "main.ts" ||
  options.hooks !== undefined ||
  options.output !== undefined ||
  args[0] === "serve" ||
  options.env?.["DATA_DIR"] !== undefined
    ? Effect.scoped(Effect.flatMap(start(args, options), ({ ended }) => ended))
    : runHere(args, options)
  ).pipe(Effect.tap((ended) => Effect.sync(() => expectNoSecretOf(args, ended, options.env ?? {}))))

/** Runs a command in this process, with its own settings, clock, streams and console. */
const runHere = (args: ReadonlyArray<string>, { env = {}, stdin = "", terminal = false }: Options) =>
  Effect.promise(async (): Promise<Ended> => {
    let stdout = ""
    let stderr = ""
    const services = Layer.mergeAll(
      ConfigProvider.layer(ConfigProvider.fromUnknown(env)),
      Layer.succeed(Console.Console, {
        ...globalThis.console,
        log: (...parts) => (stdout += `${format(...parts)}\n`),
        error: (...parts) => (stderr += `${format(...parts)}\n`)
      }),
      Stdio.layerTest({
        args: Effect.succeed(args),
        stdin: Stream.make(Buffer.from(stdin)),
        stdoutIsTerminal: Effect.succeed(terminal)
      })
    ).pipe(Layer.provideMerge(NodeServices.layer))
    const exit = await Effect.runPromiseExit(Effect.provide(perform(await commandsFor(args)), services))
    let status: number | null = null
    teardown(exit, (code) => (status = code))
    return { status, stdout, stderr }
  })

/** Returns the settings of commands on a database, with a new secret key. */
export const at = (url: Redacted.Redacted) => ({
  DATABASE_URL: Redacted.value(url),
  SECRET_KEY: randomBytes(32).toString("base64")
})

/** Runs a command on the database of the test file. */
export const cli = (args: ReadonlyArray<string>, options?: Options) =>
  Effect.flatMap(TestDatabase, ({ url }) => run(args, { ...options, env: { ...at(url), ...options?.env } }))

/** Returns the result of a failed command: its status, empty standard output, and these lines. */
export const failure = (status: 1 | 2, ...lines: ReadonlyArray<string>): Ended => ({
  status,
  stdout: "",
  stderr: lines.map((line) => `${line}\n`).join("")
})

/** Parses the document that a successful command printed; fails if anything is on standard error. */
export const documentOf = ({ status, stderr, stdout }: Ended): unknown => {
  if (status !== 0 || stderr !== "") throw new Error(`status ${status}: ${stderr}`)
  return JSON.parse(stdout)
}
