/** `bench memory`: memory of the service's process when idle, and under minutes of mixed load; what a request promotes. */
import { Console, Effect } from "effect"
import { Command } from "effect/cli"
import { table } from "../../src/cli/Output.ts"
import { residentMebibytes } from "../support/Process.ts"
import { fixed, ranged } from "./Figures.ts"
import { count, progress } from "./Options.ts"
import { type CaseName, caseNames } from "./requests/Cases.ts"
import { load, make } from "./requests/Servers.ts"
import { service } from "./Stage.ts"

export const usual = { minutes: 3 }

/** The cases take turns, one round each. */
const seconds = 5

export const measure = Effect.fnUntraced(function* ({ minutes }: typeof usual) {
  yield* progress("starting PostgreSQL and the service")
  const { contenders, token } = yield* make([service("ours")])
  const samples: Array<readonly [when: string, mebibytes: string]> = []
  const found = new Map<CaseName, Array<number>>()
  for (const { pid, promoted, url } of contenders) {
    const sample = (when: string) => {
      samples.push([when, fixed(residentMebibytes(pid), 0)])
      return progress(`memory: ${when}: ${fixed(residentMebibytes(pid), 0)} MiB`)
    }
    yield* Effect.sleep("5 seconds")
    yield* sample("idle")
    const rounds = Math.ceil((minutes * 60) / seconds)
    for (let done = 1; done <= rounds; done++) {
      const name = caseNames[done % caseNames.length] ?? "get"
      const plan = { case: name, url, pid, promoted, token, connections: 50, seconds, cursors: [null] }
      const round = yield* load(plan)
      // The first round of a case is not counted: its code is compiled.
      const rounds = found.get(name)
      if (rounds === undefined) found.set(name, [])
      else rounds.push(round.promoted)
      if ((done * seconds) % 60 === 0) yield* sample(`${(done * seconds) / 60} min`)
    }
  }
  const perRequest = [...found].map(([name, bytes]) => [name, ranged(bytes, 0)])
  return [table([["LOAD", "RSS MIB"], ...samples]), table([["CASE", "PROMOTED BYTES/REQUEST"], ...perRequest])].join(
    "\n\n"
  )
}, Effect.scoped)

export const command = Command.make(
  "memory",
  { minutes: count("minutes", usual.minutes, "Length of the load") },
  Effect.fnUntraced(function* (options) {
    yield* Console.log(yield* measure(options))
  })
).pipe(Command.withDescription("What the process holds when idle and under load, and what a request promotes"))
