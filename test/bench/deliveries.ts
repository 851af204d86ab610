/** `bench deliveries`: webhooks per second, beside job queues that do the same. */
import { Console, Effect, Option } from "effect"
import { Command, Flag } from "effect/cli"
import { text } from "./deliveries/Report.ts"
import { make } from "./deliveries/Scene.ts"
import * as Throughput from "./deliveries/Throughput.ts"
import { count, profile, progress } from "./Options.ts"

const partNames = ["throughput", "one"] as const

export interface Options {
  readonly parts: ReadonlyArray<(typeof partNames)[number]>
  readonly rounds: number
  readonly endpoints: number
  readonly deliveries: number
  readonly profile: Option.Option<string>
}

export const usual: Options = {
  parts: partNames,
  rounds: 3,
  endpoints: 50,
  deliveries: 10_000,
  profile: Option.none()
}

const flags = {
  parts: Flag.Literals("part", partNames).pipe(
    Flag.atLeast(0),
    Flag.withDescription(`Which parts: ${partNames.join(", ")}; all if not given`)
  ),
  rounds: count("rounds", usual.rounds, "Rounds of each part"),
  endpoints: count("endpoints", usual.endpoints, "Endpoints that share the deliveries of a round"),
  deliveries: count("deliveries", usual.deliveries, "Deliveries in a round"),
  profile
}

/** Starts PostgreSQL and the endpoints, runs the parts, and returns their tables. */
export const measure = Effect.fnUntraced(function* (options: Options) {
  yield* progress("starting PostgreSQL and the endpoints")
  const scene = yield* make(options.endpoints)
  const shapes = { throughput: Throughput.many(options.endpoints), one: Throughput.one }
  const found = yield* Effect.forEach(options.parts, (part) => Throughput.measure(scene, options, shapes[part]))
  return found.map(text).join("\n\n")
}, Effect.scoped)

export const command = Command.make(
  "deliveries",
  flags,
  Effect.fnUntraced(function* (options) {
    const parts = options.parts.length === 0 ? partNames : options.parts
    yield* Console.log(yield* measure({ ...options, parts }))
  })
).pipe(Command.withDescription("Webhooks per second, against graphile-worker and pg-boss"))
