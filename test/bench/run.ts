/**
 * `npm run bench`: speed of the service, compared with others that do the same work on the same database in the same run.
 * Rounds alternate, so that noise of the machine affects all alike, and ratios are computed pair by pair.
 */
import { NodeRuntime, NodeServices } from "@effect/platform-node"
import { Effect } from "effect"
import { Command } from "effect/cli"
import * as Deliveries from "./deliveries.ts"
import * as Memory from "./memory.ts"
import * as Requests from "./requests.ts"

const all = Effect.all(
  [Requests.measure(Requests.usual), Deliveries.measure(Deliveries.usual), Memory.measure(Memory.usual)],
  { discard: true }
)

Command.make("bench", {}, () => all).pipe(
  Command.withDescription("Measure the service beside others; everything, as it is usual, if no subcommand is given"),
  Command.withSubcommands([Requests.command, Deliveries.command, Memory.command]),
  Command.run({ version: "1" }),
  Effect.provide(NodeServices.layer),
  NodeRuntime.runMain
)
