/** `bench deliveries`: webhooks per second, beside job queues that do the same, and the time from a call to its webhook. */
import { Console, Effect, Struct } from "effect"
import { Command, Flag } from "effect/cli"
import * as Lag from "./deliveries/Lag.ts"
import { text } from "./deliveries/Report.ts"
import { make } from "./deliveries/Scene.ts"
import * as Throughput from "./deliveries/Throughput.ts"
import { count } from "./Options.ts"

const queues = ["throughput", "one"] as const
const lags = Struct.keys(Lag.shapes)
const partNames = [...queues, ...lags]

export interface Options {
  readonly parts: ReadonlyArray<(typeof partNames)[number]>
  readonly rounds: number
  readonly endpoints: number
  readonly deliveries: number
  readonly seconds: number
}

export const usual: Options = {
  parts: partNames,
  rounds: 3,
  endpoints: 50,
  deliveries: 10_000,
  seconds: 60
}

const flags = {
  parts: Flag.Literals("part", partNames).pipe(
    Flag.atLeast(0),
    Flag.withDescription(`Which parts: ${partNames.join(", ")}; all if not given`)
  ),
  rounds: count("rounds", usual.rounds, "Rounds beside the job queues"),
  endpoints: count("endpoints", usual.endpoints, "Endpoints that share the deliveries of a round"),
  deliveries: count("deliveries", usual.deliveries, "Deliveries in a round"),
  seconds: count("seconds", usual.seconds, "Length of each part that measures the time from call to receiver")
}

/** Runs the parts, each kind on a PostgreSQL and with endpoints of its own, and returns their tables. */
export const measure = Effect.fnUntraced(function* (options: Options) {
  const chosen = new Set<string>(options.parts)
  const found: Array<string> = []
  const beside = queues.filter((part) => chosen.has(part))
  if (beside.length > 0) {
    const scene = yield* make(options.endpoints, { isApart: false })
    const shapes = { throughput: Throughput.many(options.endpoints), one: Throughput.one }
    for (const part of beside) found.push(text(yield* Throughput.measure(scene, options, shapes[part])))
  }
  const alone = lags.filter((part) => chosen.has(part))
  if (alone.length > 0) {
    found.push(yield* Lag.measure(yield* make(20, { isApart: true }), alone, options.seconds))
  }
  return found.join("\n\n")
}, Effect.scoped)

export const command = Command.make(
  "deliveries",
  flags,
  Effect.fnUntraced(function* (options) {
    const parts = options.parts.length === 0 ? partNames : options.parts
    yield* Console.log(yield* measure({ ...options, parts }))
  })
).pipe(
  Command.withDescription(
    "Webhooks per second, against graphile-worker and pg-boss, and the time from call to receiver"
  )
)
