/** `bench memory`: memory of the service's process when idle, and under minutes of mixed load. */
import { Console, Effect } from "effect"
import { Command } from "effect/cli"
import { table } from "../../src/cli/Output.ts"
import { residentMebibytes } from "../support/Process.ts"
import { fixed } from "./Figures.ts"
import { count, progress } from "./Options.ts"
import { caseNames } from "./requests/Cases.ts"
import { load, make } from "./requests/Servers.ts"
import { service } from "./Stage.ts"

export const usual = { minutes: 3 }

/** The cases take turns, one round each. */
const seconds = 5

export const measure = Effect.fnUntraced(function* ({ minutes }: typeof usual) {
  yield* progress("starting PostgreSQL and the service")
  // Nothing is counted in the process: what a profiler of collections has recorded takes up to 30 MiB.
  const { servers, token } = yield* make([service("ours")], false)
  const samples: Array<ReadonlyArray<string>> = []
  for (const server of servers) {
    const sample = (when: string) => {
      const mebibytes = fixed(residentMebibytes(server.pid), 0)
      samples.push([when, mebibytes])
      return progress(`memory: ${when}: ${mebibytes} MiB`)
    }
    yield* Effect.sleep("5 seconds")
    yield* sample("idle")
    for (let done = 1; done * seconds <= minutes * 60; done++) {
      const name = caseNames[done % caseNames.length] ?? "get"
      yield* load({ case: name, server, token, connections: 50, seconds, cursors: [null] })
      if ((done * seconds) % 60 === 0) yield* sample(`${(done * seconds) / 60} min`)
    }
  }
  yield* Console.log(table([["LOAD", "RSS MIB"], ...samples]))
}, Effect.scoped)

export const command = Command.make(
  "memory",
  { minutes: count("minutes", usual.minutes, "Length of the load") },
  measure
).pipe(Command.withDescription("What the process holds when idle and under load"))
