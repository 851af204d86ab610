/**
 * `npm run bench`: speed of the service, compared with others that do the same work on the same database in the same run.
 * Rounds alternate, so that noise of the machine affects all alike, and ratios are computed pair by pair.
 */
import { NodeRuntime, NodeServices } from "@effect/platform-node"
import { Effect, Record } from "effect"
import { Command } from "effect/cli"
import { json } from "../../src/cli/Flags.ts"
import { answer } from "../../src/cli/Output.ts"
import * as Campaigns from "./campaigns.ts"
import * as Capacity from "./capacity.ts"
import * as Commands from "./commands.ts"
import * as Console from "./console.ts"
import * as Deliveries from "./deliveries.ts"
import * as Freeze from "./freeze.ts"
import * as Growth from "./growth.ts"
import * as Hostile from "./hostile.ts"
import * as Memory from "./memory.ts"
import * as Move from "./move.ts"
import * as Reads from "./reads.ts"
import * as Replay from "./replay.ts"
import * as Requests from "./requests.ts"

const all = Effect.fnUntraced(function* (options: { readonly json: boolean }) {
  const findings = {
    requests: yield* Requests.measure(Requests.usual),
    deliveries: yield* Deliveries.measure(Deliveries.usual),
    campaigns: yield* Campaigns.measure(Campaigns.usual),
    freeze: yield* Freeze.measure(Freeze.usual),
    hostile: yield* Hostile.measure(Hostile.usual),
    memory: yield* Memory.measure(Memory.usual),
    commands: yield* Commands.measure(Commands.usual),
    console: yield* Console.measure(Console.usual),
    reads: yield* Reads.measure(Reads.usual),
    replay: yield* Replay.measure(Replay.usual),
    growth: yield* Growth.measure(Growth.usual),
    capacity: yield* Capacity.measure(Capacity.usual),
    move: yield* Move.measure(Move.usual)
  }
  const documents = Record.map(findings, ({ document }) => document)
  const texts = Object.values(findings).map(({ text }) => text)
  yield* answer(options.json, documents, texts.join("\n\n"))
})

Command.make("bench", { json }, all).pipe(
  Command.withDescription("Measure the service beside others; everything, as it is usual, if no subcommand is given"),
  Command.withSubcommands([
    Requests.command,
    Deliveries.command,
    Campaigns.command,
    Freeze.command,
    Hostile.command,
    Memory.command,
    Commands.command,
    Console.command,
    Reads.command,
    Replay.command,
    Growth.command,
    Capacity.command,
    Move.command
  ]),
  Command.run({ version: "1" }),
  Effect.provide(NodeServices.layer),
  NodeRuntime.runMain
)
