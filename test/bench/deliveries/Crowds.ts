/** The effect of one project's many endpoints, which hang or answer slowly, on the healthy endpoint of another project. */
import { Duration, Effect } from "effect"
import { ProjectId } from "../../../src/api/schema/Ids.ts"
import { anotherDatabase, service } from "../Stage.ts"
import type { Endpoints } from "./Endpoints.ts"
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
}

interface Crowd {
  readonly name: string
  /** Number of endpoints. */
  readonly size: number
  /** Deliveries for each of them at the start of a round. */
  readonly backlog: number
  /** What the endpoints do, until it is interrupted. */
  readonly behave: (endpoints: Endpoints) => Effect.Effect<void, Effect.Error<Endpoints["hang"]>>
}

const crowds: ReadonlyArray<Crowd> = [
  {
    name: "2,400 that hang",
    size: 2_400,
    backlog: 1,
    behave: ({ hang }) => Effect.andThen(hang, Effect.never)
  },
  {
    name: "400 that answer within 12 s",
    size: 400,
    backlog: 20,
    behave: ({ answer, hang }) =>
      Effect.forever(Effect.andThen(Effect.andThen(hang, Effect.sleep(Duration.seconds(12))), answer))
  }
]

/** Milliseconds from one command to the next. */
const pace = 100

/** Measures a flow while the endpoints of a crowd have deliveries; then they answer, and their deliveries end. */
const beside = Effect.fnUntraced(function* (crowd: Crowd, { endpoints, url }: Scene, options: Options) {
  const other = ProjectId.make("crowd")
  const started = yield* ours(service("ours"), yield* anotherDatabase(url, `crowd_${crowd.size}`), (sql) =>
    Effect.andThen(
      open(sql, other, Array<string>(crowd.size).fill(endpoints.hanging), { subscribed: 0 }),
      open(sql, projectId, endpoints.urls.slice(0, 1), { subscribed: 1 })
    )
  )
  yield* flow(started, endpoints, options.events, pace)
  return {
    name: crowd.name,
    run: Effect.gen(function* () {
      yield* Effect.forkChild(crowd.behave(endpoints))
      yield* give(started.sql, yield* makeWork(crowd.size * crowd.backlog, crowd.size), other)
      return yield* flow(started, endpoints, options.events, pace)
    }).pipe(Effect.ensuring(Effect.orDie(endpoints.answer)))
  }
})

/** Measures rounds without a pause between them; the first begins when the endpoints get their first deliveries. */
export const measure = Effect.fnUntraced(function* (scene: Scene, options: Options) {
  const runs = []
  for (const crowd of crowds) runs.push(yield* beside(crowd, scene, options))
  const comparison: Comparison = {
    title: "beside a project with endpoints",
    names: runs.map(({ name }) => name),
    ratios: [],
    rounds: yield* takeTurns("crowds", runs, options.rounds, ({ run }) => run)
  }
  return comparison
}, Effect.scoped)
