/** Time until a long queue is empty after its webhook was disabled, and the effect on a healthy endpoint. */
import { Effect } from "effect"
import { disableGone } from "../../../src/integrations/deliveries/Disabling.ts"
import { anotherDatabase, service } from "../Stage.ts"
import { until } from "./Endpoints.ts"
import { flow } from "./Flow.ts"
import { done, open, ours } from "./Ours.ts"
import { queueFor } from "./Queue.ts"
import type { Comparison } from "./Report.ts"
import type { Scene } from "./Scene.ts"
import { takeTurns } from "./Turns.ts"
import { installationId, projectId } from "./Work.ts"

export interface Options {
  readonly rounds: number
  /** Events of the healthy endpoint per round. */
  readonly events: number
  /** Queued deliveries of the webhook that is disabled. */
  readonly parked: number
}

const pace = 20

export const measure = Effect.fnUntraced(function* ({ endpoints, url }: Scene, { events, parked, rounds }: Options) {
  const [healthy = ""] = endpoints.urls
  const started = yield* ours(service("ours"), yield* anotherDatabase(url, "disabled"), (sql) =>
    open(sql, projectId, [healthy, endpoints.dead], { subscribed: 1 })
  )
  const { sql } = started
  const gone = { projectId, installationId: installationId(1) }
  yield* flow(started, endpoints, events, pace)
  const run = Effect.gen(function* () {
    yield* sql`
      UPDATE endpoint_health SET parked_until = now() + interval '1 day'
      WHERE project_id = ${projectId} AND installation_id = ${gone.installationId}`
    yield* sql`UPDATE webhooks SET enabled = true WHERE project_id = ${projectId}`
    yield* queueFor(sql, projectId, [gone.installationId], parked)
    const from = Date.now()
    yield* disableGone(sql, { ...gone, urlVersion: 1 })
    const disabled = Date.now() - from
    const { p50, p95 } = yield* flow(started, endpoints, events, pace)
    yield* until("deliveries stay open", done(sql), (done) => done)
    return { disableMillis: disabled, drainSeconds: (Date.now() - from) / 1_000, p50, p95 }
  })
  const one = { name: `${parked} deliveries`, run }
  const comparison: Comparison = {
    title: "disabled",
    names: [one.name],
    ratios: [],
    rounds: yield* takeTurns("disabled", [one], rounds, ({ run }) => run)
  }
  return comparison
}, Effect.scoped)
