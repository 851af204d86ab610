/** `bench memory`: memory of the service's process when idle, and under minutes of mixed load. */
import { Effect } from "effect"
import { Command } from "effect/cli"
import { randomUUID } from "node:crypto"
import { json } from "../../src/cli/Flags.ts"
import { answer, table } from "../../src/cli/Output.ts"
import { residentMebibytes } from "../support/Process.ts"
import { fixed, round } from "./Figures.ts"
import { count, type Findings, progress } from "./Options.ts"
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

export const measure = Effect.fnUntraced(function* ({ connections, minutes }: Options) {
  yield* progress("starting PostgreSQL and the service")
  const { contenders, sql, token } = yield* make([service("ours")])
  const samples: Array<{ readonly when: string; readonly mebibytes: number }> = []
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
      yield* load(JSON.stringify({ case: name, url, pid, token, connections, seconds: secondsOfRound, stock }))
      if ((done * secondsOfRound) % 60 === 0) yield* sample(`${(done * secondsOfRound) / 60} min`)
    }
  }
  const findings: Findings = {
    document: {
      settings: { minutes, connections, node: process.version },
      memoryMebibytes: samples.map(({ mebibytes, when }) => ({ when, mebibytes: round(mebibytes) }))
    },
    text: table([["LOAD", "RSS MIB"], ...samples.map(({ mebibytes, when }) => [when, fixed(mebibytes, 0)])])
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
).pipe(Command.withDescription("What the process holds when idle and under load"))
