/** Latency of one endpoint's events, alone and while another endpoint is dead and another one hangs. */
import { Effect } from "effect"
import { anotherDatabase, service } from "../Stage.ts"
import { until } from "./Endpoints.ts"
import { flow } from "./Flow.ts"
import { done, give, open, ours, type Ours } from "./Ours.ts"
import type { Comparison } from "./Report.ts"
import type { Scene } from "./Scene.ts"
import { takeTurns } from "./Turns.ts"
import { installationId, makeWork, projectId } from "./Work.ts"

export interface Options {
  readonly rounds: number
  /** Events of the healthy endpoint per round. */
  readonly events: number
  /** Deliveries queued for each of the other endpoints at the start. */
  readonly backlog: number
}

/** Opens a project with three endpoints: a healthy one, a dead one and one that hangs; the last two are disabled. */
const openThree = Effect.fnUntraced(function* ({ endpoints, url }: Scene) {
  const { dead, hanging, urls } = endpoints
  const three = [urls[0] ?? "", dead, hanging]
  const started = yield* ours(service("ours"), yield* anotherDatabase(url, "neighbours"), (sql) =>
    open(sql, projectId, three, { subscribed: three.length })
  )
  yield* enable(started, false)
  return started
})

const others = [installationId(1), installationId(2)]

/** Enables or disables the dead endpoint and the one that hangs, and resets their failures. */
const enable = ({ sql }: Ours, enabled: boolean) => sql`
  WITH switched AS (
    UPDATE webhooks SET enabled = ${enabled} WHERE project_id = ${projectId} AND installation_id = ANY(${others}::text[])
    RETURNING project_id, installation_id
  )
  UPDATE endpoint_health health SET failures = 0, failed_probes = 0, parked_until = NULL
  FROM switched
  WHERE health.project_id = switched.project_id AND health.installation_id = switched.installation_id`

/** Measures a flow to the healthy endpoint while the others are enabled, each with a backlog; then disables them. */
const amongOthers = Effect.fnUntraced(function* (service: Ours, scene: Scene, { backlog, events }: Options) {
  const { endpoints } = scene
  yield* endpoints.hang
  yield* enable(service, true)
  const work = yield* makeWork(2 * backlog, 2)
  yield* give(
    service.sql,
    work.map((one) => ({ ...one, endpoint: one.endpoint + 1 }))
  )
  const figures = yield* flow(service, endpoints, events, pace)
  yield* enable(service, false)
  yield* endpoints.answer
  // Deliveries of a disabled webhook are dead-lettered.
  yield* until("deliveries stay open", done(service.sql), (done) => done)
  return figures
})

/** Milliseconds from one command to the next. */
const pace = 20

const alone = "healthy alone"
const neighbours = "beside dead and hanging"

/** Measures the latency of events on an idle service, one at a time: alone, and beside the other endpoints. */
export const measure = Effect.fnUntraced(function* (scene: Scene, options: Options) {
  const service = yield* openThree(scene)
  const { events, rounds } = options
  const runs = [
    { name: alone, run: flow(service, scene.endpoints, events, pace) },
    { name: neighbours, run: amongOthers(service, scene, options) }
  ]
  for (const { run } of runs) yield* run
  const comparison: Comparison = {
    title: "neighbours",
    names: [alone, neighbours],
    ratios: [[neighbours, alone]],
    rounds: yield* takeTurns("neighbours", runs, rounds, ({ run }) => run)
  }
  return comparison
}, Effect.scoped)
