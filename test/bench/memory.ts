/** `bench memory`: memory of the service's process when idle, and under minutes of mixed load. */
import { Effect } from "effect"
import { Command } from "effect/cli"
import { randomUUID } from "node:crypto"
import { mkdtemp, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout } from "node:timers/promises"
import { json } from "../../src/cli/Flags.ts"
import { answer, table } from "../../src/cli/Output.ts"
import { residentMebibytes } from "../support/Process.ts"
import { fixed, round } from "./Figures.ts"
import { count, type Findings, progress } from "./Options.ts"
import { interval, type Promoted } from "./Promoted.ts"
import { type CaseName, cases } from "./requests/Cases.ts"
import { load, make } from "./requests/Servers.ts"
import { service } from "./Stage.ts"

export interface Options {
  readonly minutes: number
  readonly connections: number
}

export const usual: Options = { minutes: 3, connections: 50 }

/** Cases that take turns, one round each. A list's answer has 50 records. */
const mix: ReadonlyArray<CaseName> = ["get", "list", "create", "patch", "replay"]
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
  const { contenders, sql, token } = yield* make([service("ours", { preload: "Promoted.ts" })], { PROMOTED: file })
  const samples: Array<{ readonly when: string; readonly mebibytes: number }> = []
  const promoted = new Map<CaseName, Promoted>()
  for (const { pid, url } of contenders) {
    const sample = (when: string) => {
      samples.push({ when, mebibytes: residentMebibytes(pid) })
      return progress(`memory: ${when}: ${fixed(residentMebibytes(pid), 0)} MiB`)
    }
    yield* Effect.sleep("5 seconds")
    yield* sample("idle")
    const rounds = Math.ceil((minutes * 60) / secondsOfRound)
    for (let done = 1; done <= rounds; done++) {
      const name = mix[done % mix.length] ?? "get"
      const stock = { batch: randomUUID(), cursors: [null] }
      yield* cases[name].prepare?.(sql, stock.batch, connections + 1) ?? Effect.void
      const before = yield* promotedIn(file)
      yield* load(JSON.stringify({ case: name, url, pid, token, connections, seconds: secondsOfRound, stock }))
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
  const perRequest = [...promoted].map(([name, { answers, bytes }]) => [name, bytes / answers] as const)
  const findings: Findings = {
    document: {
      settings: { minutes, connections, node: process.version },
      memoryMebibytes: samples.map(({ mebibytes, when }) => ({ when, mebibytes: round(mebibytes) })),
      promotedBytes: Object.fromEntries(perRequest.map(([name, bytes]) => [name, round(bytes)]))
    },
    text: [
      table([["LOAD", "RSS MIB"], ...samples.map(({ mebibytes, when }) => [when, fixed(mebibytes, 0)])]),
      table([["CASE", "PROMOTED BYTES/REQUEST"], ...perRequest.map(([name, bytes]) => [name, fixed(bytes, 0)])])
    ].join("\n\n")
  }
  return findings
}, Effect.scoped)

export const command = Command.make(
  "memory",
  {
    json,
    minutes: count("minutes", usual.minutes, "Length of the load"),
    connections: count("connections", usual.connections, "Connections of the load")
  },
  Effect.fnUntraced(function* ({ json, ...options }) {
    const { document, text } = yield* measure(options)
    yield* answer(json, document, text)
  })
).pipe(Command.withDescription("What the process holds when idle and under load, and what a request promotes"))
