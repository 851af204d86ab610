/** `bench deliveries`: webhooks per second, beside job queues that do the same, and the time from a call to its webhook. */
import { Console, Effect, Struct } from "effect"
import { Command, Flag } from "effect/cli"
import * as Lag from "./deliveries/Lag.ts"
import { make } from "./deliveries/Scene.ts"
import * as Throughput from "./deliveries/Throughput.ts"
import { count } from "./Options.ts"

const queues = ["throughput", "one"] as const
const lags = Struct.keys(Lag.shapes)
const partNames = [...queues, ...lags]

export const usual = { parts: partNames, rounds: 3, endpoints: 50, deliveries: 10_000, seconds: 60 }

const flags = {
  parts: Flag.Literals("part", partNames).pipe(
    Flag.atLeast(0),
    Flag.map((parts) => (parts.length === 0 ? partNames : parts)),
    Flag.withDescription(`Which parts: ${partNames.join(", ")}; all if not given`)
  ),
  rounds: count("rounds", usual.rounds, "Rounds beside the job queues"),
  endpoints: count("endpoints", usual.endpoints, "Endpoints that share the deliveries of a round"),
  deliveries: count("deliveries", usual.deliveries, "Deliveries in a round"),
  seconds: count("seconds", usual.seconds, "Length of each part that measures the time from call to receiver")
}

/** Runs the parts, each kind on a PostgreSQL and with endpoints of its own, and prints their tables. */
export const measure = Effect.fnUntraced(function* (
  options: Omit<typeof usual, "parts"> & { readonly parts: ReadonlyArray<string> }
) {
  const isChosen = (part: string) => options.parts.includes(part)
  const beside = queues.filter(isChosen)
  if (beside.length > 0) {
    const scene = yield* make(options.endpoints, { isApart: false })
    for (const part of beside) {
      yield* Console.log(yield* Throughput.measure(scene, part === "one" ? 1 : options.endpoints, options))
    }
  }
  const alone = lags.filter(isChosen)
  if (alone.length > 0)
    yield* Console.log(yield* Lag.measure(yield* make(20, { isApart: true }), alone, options.seconds))
}, Effect.scoped)

export const command = Command.make("deliveries", flags, measure).pipe(
  Command.withDescription("Webhooks per second beside graphile-worker and pg-boss, and the time from call to receiver")
)
