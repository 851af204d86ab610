/** Latency of an event, from commit to arrival, on an otherwise idle service. */
import { Effect } from "effect"
import { anotherDatabase, service } from "../Stage.ts"
import { flow } from "./Flow.ts"
import { open, ours } from "./Ours.ts"
import type { Comparison } from "./Report.ts"
import type { Scene } from "./Scene.ts"
import { takeTurns } from "./Turns.ts"
import { projectId } from "./Work.ts"

export interface Options {
  readonly rounds: number
  /** Events per round. */
  readonly events: number
}

/** Milliseconds from one command to the next, so that each finds the service idle. */
const pace = 60

export const measure = Effect.fnUntraced(function* ({ endpoints, url }: Scene, { events, rounds }: Options) {
  const database = yield* anotherDatabase(url, "idle")
  const started = yield* ours(service("ours"), database, (sql) =>
    open(sql, projectId, endpoints.urls.slice(0, 1), { subscribed: 1 })
  )
  yield* flow(started, endpoints, events, 0)
  const comparison: Comparison = {
    title: "one event at a time",
    names: [started.name],
    ratios: [],
    rounds: yield* takeTurns("idle", [started], rounds, (one) => flow(one, endpoints, events, pace))
  }
  return comparison
}, Effect.scoped)
