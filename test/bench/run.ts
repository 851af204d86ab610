/**
 * `npm run bench`: speed of the service, compared with others that do the same work on the same database in the same run.
 * Rounds alternate, so that noise of the machine affects all alike, and ratios are computed pair by pair.
 */
import { NodeRuntime, NodeServices } from "@effect/platform-node"
import { Effect, Record } from "effect"
import { Command } from "effect/cli"
import { json } from "../../src/cli/Flags.ts"
import { answer } from "../../src/cli/Output.ts"
import * as Deliveries from "./deliveries.ts"
import * as Memory from "./memory.ts"
import * as Requests from "./requests.ts"

const all = Effect.fnUntraced(function* (options: { readonly json: boolean }) {
  const findings = {
    requests: yield* Requests.measure(Requests.usual),
    deliveries: yield* Deliveries.measure(Deliveries.usual),
    memory: yield* Memory.measure(Memory.usual)
  }
  const documents = Record.map(findings, ({ document }) => document)
  const texts = Object.values(findings).map(({ text }) => text)
  yield* answer(options.json, documents, texts.join("\n\n"))
})

Command.make("bench", { json }, all).pipe(
  Command.withDescription("Measure the service beside others; everything, as it is usual, if no subcommand is given"),
  Command.withSubcommands([Requests.command, Deliveries.command, Memory.command]),
  Command.run({ version: "1" }),
  Effect.provide(NodeServices.layer),
  NodeRuntime.runMain
)
