/** `bench commands`: how long the operator's commands take beside a service on its embedded database, as its users run them. */
import { Clock, Effect } from "effect"
import { Command } from "effect/cli"
import { ChildProcess, ChildProcessSpawner } from "effect/process"
import { mkdtemp, rm } from "node:fs/promises"
import * as Os from "node:os"
import * as Path from "node:path"
import { json } from "../../src/cli/Flags.ts"
import { answer, table } from "../../src/cli/Output.ts"
import { endedChildrenMillis } from "./Cpu.ts"
import { ranged, spread } from "./Figures.ts"
import { count, type Findings, progress } from "./Options.ts"
import { BenchFailed, environmentOf, service, start } from "./Stage.ts"

export interface Options {
  readonly rounds: number
}

export const usual: Options = { rounds: 20 }

const list = ["token", "list", "--project", "demo"]

/** What Node and npm take alone, and the commands without npm and with it. */
const programs: ReadonlyArray<readonly [name: string, program: string, ...ReadonlyArray<string>]> = [
  ["node -e 0", process.execPath, "-e", "0"],
  ["npm --version", "npm", "--version"],
  ["token list", process.execPath, "src/cli.ts", ...list],
  ["--help", process.execPath, "src/cli.ts", "--help"],
  ["npm run cli -- token list", "npm", "run", "--silent", "cli", "--", ...list]
]

export const measure = Effect.fnUntraced(function* ({ rounds }: Options) {
  yield* progress("starting the service on an empty embedded database")
  const directory = yield* Effect.acquireRelease(
    Effect.promise(() => mkdtemp(Path.join(Os.tmpdir(), "developer-api-bench-"))),
    (directory) => Effect.promise(() => rm(directory, { recursive: true, force: true }))
  )
  const data = { DATA_DIR: directory }
  const ours = service("ours")
  yield* start(ours, undefined, data)

  const spawner = yield* ChildProcessSpawner.ChildProcessSpawner
  /** Runs a program to its end, and returns its time and the CPU time of its processes, in milliseconds. */
  const timed = Effect.fnUntraced(function* ([name, program, ...args]: (typeof programs)[number]) {
    const cpu = endedChildrenMillis(process.pid)
    const started = yield* Clock.currentTimeNanos
    const status = yield* spawner.exitCode(
      ChildProcess.make(program, args, {
        cwd: ours.directory,
        env: environmentOf(ours, data),
        stdin: "ignore",
        stdout: "ignore",
        stderr: "inherit"
      })
    )
    if (status !== 0) return yield* new BenchFailed({ message: `${name} ended with status ${status}` })
    const millis = Number((yield* Clock.currentTimeNanos) - started) / 1e6
    return { millis, cpu: endedChildrenMillis(process.pid) - cpu }
  })

  // The first round compiles what the others find in the cache.
  for (const program of programs) yield* timed(program)
  const found = programs.map((program) => ({ program, runs: new Array<{ millis: number; cpu: number }>() }))
  for (let round = 0; round < rounds; round++) {
    for (const { program, runs } of found) runs.push(yield* timed(program))
    yield* progress(`commands: round ${round + 1}`)
  }
  const figures = found.map(({ program: [name], runs }) => ({
    name,
    millis: runs.map(({ millis }) => millis),
    cpu: runs.map(({ cpu }) => cpu)
  }))
  const findings: Findings = {
    document: {
      settings: { rounds, node: process.version },
      commands: figures.map(({ cpu, millis, name }) => ({ name, millis: spread(millis), cpuMillis: spread(cpu) }))
    },
    text: table([
      ["COMMAND", "MS", "MS OF CPU"],
      ...figures.map(({ cpu, millis, name }) => [name, ranged(millis, 0), ranged(cpu, 0)])
    ])
  }
  return findings
}, Effect.scoped)

export const command = Command.make(
  "commands",
  { json, rounds: count("rounds", usual.rounds, "Times that each command is run, in turns") },
  Effect.fnUntraced(function* ({ json, ...options }) {
    const { document, text } = yield* measure(options)
    yield* answer(json, document, text)
  })
).pipe(Command.withDescription("How long `token list` and `--help` take beside a running service"))
