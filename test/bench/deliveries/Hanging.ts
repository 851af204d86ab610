/** The effect of endpoints that accept and never answer on a healthy one. */
import { Effect } from "effect"
import { anotherDatabase, service } from "../Stage.ts"
import { flow } from "./Flow.ts"
import { give, open, ours } from "./Ours.ts"
import type { Comparison } from "./Report.ts"
import type { Scene } from "./Scene.ts"
import { takeTurns } from "./Turns.ts"
import { makeWork, projectId } from "./Work.ts"

export interface Options {
  readonly rounds: number
  /** Events of the healthy endpoint per round. */
  readonly events: number
  /** Number of endpoints that hang, each with a backlog from the start. */
  readonly hanging: number
}

const backlog = 50
/** Milliseconds from one command to the next. */
const pace = 100

/** Measures rounds without a pause between them; the first begins when the endpoints begin to hang. */
export const measure = Effect.fnUntraced(function* ({ endpoints, url }: Scene, { events, hanging, rounds }: Options) {
  const [healthy = ""] = endpoints.urls
  const urls = [healthy, ...Array.from({ length: hanging }, () => endpoints.hanging)]
  const started = yield* ours(
    service("ours"),
    yield* anotherDatabase(url, "hanging"),
    (sql) => open(sql, projectId, urls, { subscribed: 1 }),
    { WEBHOOK_TIMEOUT: "5s" }
  )
  yield* flow(started, endpoints, events, pace)
  yield* endpoints.hang
  const work = yield* makeWork(hanging * backlog, hanging)
  yield* give(
    started.sql,
    work.map((one) => ({ ...one, endpoint: one.endpoint + 1 }))
  )
  const beside = { name: `beside ${hanging} that hang`, run: flow(started, endpoints, events, pace) }
  const comparison: Comparison = {
    title: "hanging",
    names: [beside.name],
    ratios: [],
    rounds: yield* takeTurns("hanging", [beside], rounds, ({ run }) => run)
  }
  yield* endpoints.answer
  return comparison
}, Effect.scoped)
