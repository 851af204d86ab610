/** `bench deliveries`: throughput and latency of webhooks, and the effect of endpoints on each other. */
import { Effect, Option } from "effect"
import { Command, Flag } from "effect/cli"
import { json } from "../../src/cli/Flags.ts"
import { answer } from "../../src/cli/Output.ts"
import * as Hanging from "./deliveries/Hanging.ts"
import * as Idle from "./deliveries/Idle.ts"
import { type Comparison, document, text } from "./deliveries/Report.ts"
import { make, type Scene } from "./deliveries/Scene.ts"
import * as Throughput from "./deliveries/Throughput.ts"
import { count, type Findings, profile, progress } from "./Options.ts"

const partNames = ["throughput", "one", "idle", "hanging"] as const
type Part = (typeof partNames)[number]

export interface Options {
  readonly parts: ReadonlyArray<Part>
  readonly rounds: number
  readonly endpoints: number
  readonly deliveries: number
  readonly events: number
  readonly hanging: number
  readonly profile: Option.Option<string>
}

export const usual: Options = {
  parts: partNames,
  rounds: 3,
  endpoints: 50,
  deliveries: 10_000,
  events: 100,
  hanging: 200,
  profile: Option.none()
}

const flags = {
  json,
  parts: Flag.Literals("part", partNames).pipe(
    Flag.atLeast(0),
    Flag.withDescription(`Which parts: ${partNames.join(", ")}; all if not given`)
  ),
  rounds: count("rounds", usual.rounds, "Rounds of each part"),
  endpoints: count("endpoints", usual.endpoints, "Endpoints that share the deliveries of a round"),
  deliveries: count("deliveries", usual.deliveries, "Deliveries in a round of throughput"),
  events: count("events", usual.events, "Commands in a round of latency"),
  hanging: count("hanging", usual.hanging, "Endpoints that accept and never answer"),
  profile
}

const run = (part: Part, scene: Scene, options: Options) => {
  switch (part) {
    case "throughput":
      return Throughput.measure(scene, options, Throughput.many(options.endpoints))
    case "one":
      return Throughput.measure(scene, options, Throughput.one)
    case "idle":
      return Idle.measure(scene, options)
    case "hanging":
      return Hanging.measure(scene, options)
  }
}

/** Starts PostgreSQL and the endpoints, and runs the parts. */
export const measure = Effect.fnUntraced(function* (options: Options) {
  yield* progress("starting PostgreSQL and the endpoints")
  const scene = yield* make(options.endpoints)
  const found: Array<readonly [Part, Comparison]> = []
  for (const part of options.parts) found.push([part, yield* run(part, scene, options)])
  const { parts: _, profile: __, ...settings } = options
  const findings: Findings = {
    document: {
      settings: { ...settings, node: process.version },
      ...Object.fromEntries(found.map(([part, comparison]) => [part, document(comparison)]))
    },
    text: found.map(([, comparison]) => text(comparison)).join("\n\n")
  }
  return findings
}, Effect.scoped)

export const command = Command.make(
  "deliveries",
  flags,
  Effect.fnUntraced(function* ({ json, ...options }) {
    const parts = options.parts.length === 0 ? partNames : options.parts
    const { document, text } = yield* measure({ ...options, parts })
    yield* answer(json, document, text)
  })
).pipe(Command.withDescription("Webhooks per second, against graphile-worker and pg-boss, and how soon they come"))
