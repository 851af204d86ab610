/** Latency of an event, from commit to arrival, on an otherwise idle service, beside that of a job of the opponents. */
import { Effect } from "effect"
import { anotherDatabase, service } from "../Stage.ts"
import { flow, flowOf } from "./Flow.ts"
import { graphileWorker, pgBoss } from "./Opponents.ts"
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

/** Jobs that the opponents run at a time. */
const inFlight = 32

/** Milliseconds from one command to the next, so that each finds the service idle. */
const pace = 60

export const measure = Effect.fnUntraced(function* ({ endpoints, url }: Scene, { events, rounds }: Options) {
  const [first = ""] = endpoints.urls
  const one = { ...endpoints, urls: [first] }
  const started = yield* ours(service("ours"), yield* anotherDatabase(url, "idle"), (sql) =>
    open(sql, projectId, one.urls, { subscribed: 1 })
  )
  const opponents = [
    yield* graphileWorker(yield* anotherDatabase(url, "idle_graphile_worker"), one, inFlight),
    yield* pgBoss(yield* anotherDatabase(url, "idle_pg_boss"), one, inFlight)
  ]
  const contenders = [
    { name: started.name, run: (pace: number) => flow(started, one, events, pace) },
    ...opponents.map(({ name, source }) => ({ name, run: (pace: number) => flowOf(source, one, events, pace) }))
  ]
  for (const { run } of contenders) yield* run(0)
  const comparison: Comparison = {
    title: "one event at a time",
    names: contenders.map(({ name }) => name),
    ratios: opponents.map(({ name }) => [started.name, name]),
    rounds: yield* takeTurns("idle", contenders, rounds, ({ run }) => run(pace))
  }
  return comparison
}, Effect.scoped)
