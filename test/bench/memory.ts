/** `bench memory`: memory of the service's process when idle, and under minutes of mixed load; what a request promotes. */
import { Console, Effect } from "effect"
import { Command } from "effect/cli"
import { mkdtemp, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout } from "node:timers/promises"
import { table } from "../../src/cli/Output.ts"
import { residentMebibytes } from "../support/Process.ts"
import { fixed } from "./Figures.ts"
import { count, progress } from "./Options.ts"
import { interval, type Promoted } from "./Promoted.ts"
import { type CaseName, caseNames } from "./requests/Cases.ts"
import type { RoundPlan } from "./requests/Round.ts"
import { load, make } from "./requests/Servers.ts"
import { service } from "./Stage.ts"

export interface Options {
  readonly minutes: number
  readonly connections: number
}

export const usual: Options = { minutes: 3, connections: 50 }

/** The cases take turns, one round each. */
const secondsOfRound = 5

/** What a process has promoted and answered since its start; see `Promoted.ts`. */
const promotedIn = (file: string) =>
  Effect.promise(async (): Promise<Promoted> => {
    await setTimeout(2 * interval)
    return JSON.parse(await readFile(file, "utf8"))
  })

export const measure = Effect.fnUntraced(function* ({ connections, minutes }: Options) {
  yield* progress("starting PostgreSQL and the service")
  const directory = yield* Effect.acquireRelease(
    Effect.promise(() => mkdtemp(join(tmpdir(), "developer-api-bench-"))),
    (directory) => Effect.promise(() => rm(directory, { recursive: true }))
  )
  const file = join(directory, "promoted.json")
  const { contenders, token } = yield* make([service("ours", { preload: "Promoted.ts" })], {
    PROMOTED: file
  })
  const samples: Array<readonly [when: string, mebibytes: string]> = []
  const promoted = new Map<CaseName, Promoted>()
  for (const { pid, url } of contenders) {
    const sample = (when: string) => {
      samples.push([when, fixed(residentMebibytes(pid), 0)])
      return progress(`memory: ${when}: ${fixed(residentMebibytes(pid), 0)} MiB`)
    }
    yield* Effect.sleep("5 seconds")
    yield* sample("idle")
    const rounds = Math.ceil((minutes * 60) / secondsOfRound)
    for (let done = 1; done <= rounds; done++) {
      const name = caseNames[done % caseNames.length] ?? "get"
      const before = yield* promotedIn(file)
      const plan: RoundPlan = { case: name, url, pid, token, connections, seconds: secondsOfRound, cursors: [null] }
      yield* load(JSON.stringify(plan))
      const after = yield* promotedIn(file)
      // The first round of a case is not counted: its code is compiled.
      const sum = promoted.get(name)
      promoted.set(name, {
        answers: sum === undefined ? 0 : sum.answers + after.answers - before.answers,
        bytes: sum === undefined ? 0 : sum.bytes + after.bytes - before.bytes
      })
      if ((done * secondsOfRound) % 60 === 0) yield* sample(`${(done * secondsOfRound) / 60} min`)
    }
  }
  const perRequest = [...promoted].map(([name, { answers, bytes }]) => [name, fixed(bytes / answers, 0)])
  return [table([["LOAD", "RSS MIB"], ...samples]), table([["CASE", "PROMOTED BYTES/REQUEST"], ...perRequest])].join(
    "\n\n"
  )
}, Effect.scoped)

export const command = Command.make(
  "memory",
  {
    minutes: count("minutes", usual.minutes, "Length of the load"),
    connections: count("connections", usual.connections, "Connections of the load")
  },
  Effect.fnUntraced(function* (options) {
    yield* Console.log(yield* measure(options))
  })
).pipe(Command.withDescription("What the process holds when idle and under load, and what a request promotes"))
