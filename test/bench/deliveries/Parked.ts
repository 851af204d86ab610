/** Cost of parked endpoints and their deliveries for healthy endpoints. */
import { PgClient } from "@effect/sql-pg"
import { Effect, Layer, Redacted } from "effect"
import { ProjectId } from "../../../src/api/schema/Ids.ts"
import { pools } from "../../../src/platform/Pools.ts"
import { claimWith, roomsOf } from "../../support/Claims.ts"
import { quantile } from "../Figures.ts"
import { anotherDatabase, service } from "../Stage.ts"
import { flow } from "./Flow.ts"
import { open, ours } from "./Ours.ts"
import { queueFor } from "./Queue.ts"
import type { Comparison } from "./Report.ts"
import type { Scene } from "./Scene.ts"
import { drain } from "./Throughput.ts"
import { takeTurns } from "./Turns.ts"
import { installationId, projectId } from "./Work.ts"

export interface Options {
  readonly rounds: number
  /** Deliveries to healthy endpoints per round. */
  readonly deliveries: number
  /** Commands that follow one by one; the latency of their events is measured. */
  readonly events: number
  /** Number of deliveries for parked endpoints, and maximum number of parked endpoints. */
  readonly parked: number
}

const parkedProject = ProjectId.make("parked")

/** Creates parked endpoints, and divides the queued deliveries equally among them. */
const park = Effect.fnUntraced(function* (sql: PgClient.PgClient, dead: string, endpoints: number, deliveries: number) {
  yield* open(sql, parkedProject, [dead], { subscribed: 0 })
  yield* sql`
    WITH parked AS MATERIALIZED (
      SELECT 'parked' || n AS id FROM generate_series(1, ${endpoints}::int) n
    ),
    installation AS (
      INSERT INTO installations (project_id, id, name, status)
      SELECT ${parkedProject}::text, id, id, 'active' FROM parked
    ),
    webhook AS (
      INSERT INTO webhooks (project_id, installation_id, endpoint_url, event_types, enabled, version)
      SELECT ${parkedProject}::text, id, ${dead}::text, '{}', true, 1 FROM parked
    )
    INSERT INTO endpoint_health (project_id, installation_id, failures, strikes, failed_probes, parked_until, next_due_at)
    SELECT ${parkedProject}::text, id, 12, 12, 2, now() + interval '1 day', now() FROM parked`
  const ids = Array.from({ length: endpoints }, (_, n) => `parked${n + 1}`)
  yield* queueFor(sql, parkedProject, ids, deliveries)
  yield* sql`VACUUM ANALYZE installations, webhooks, endpoint_health`
})

/** Measures claims that find nothing due, although a notice names an endpoint. */
const claims = Effect.fnUntraced(function* (url: Redacted.Redacted) {
  const client = yield* Layer.build(PgClient.layer({ url, maxConnections: 1, startupParameters: pools.claims.session }))
  const sql = yield* Effect.provideContext(PgClient.PgClient, client)
  const named = [{ projectId, installationId: installationId(0), width: 4 }]
  const times = []
  for (let n = 0; n < 200; n++) {
    const from = performance.now()
    yield* claimWith(sql, { leaseMillis: 30_000, rooms: roomsOf(512, 512), named })
    times.push(performance.now() - from)
  }
  return quantile(times, 0.95)
}, Effect.scoped)

export const measure = Effect.fnUntraced(function* (scene: Scene, options: Options) {
  const { deliveries, events, parked, rounds } = options
  const { endpoints, url } = scene
  const variants = [
    { name: "none parked", endpoints: 0 },
    { name: `1 endpoint, ${parked} deliveries`, endpoints: 1 },
    { name: `${parked} endpoints, 1 delivery each`, endpoints: parked }
  ]
  const services = []
  for (const variant of variants) {
    const prepare = Effect.fnUntraced(function* (sql: PgClient.PgClient) {
      if (variant.endpoints > 0) yield* park(sql, endpoints.dead, variant.endpoints, parked)
      // One delivery per deal.
      return yield* open(sql, projectId, endpoints.urls, { subscribed: 1 })
    })
    const database = yield* anotherDatabase(url, `parked_${variant.endpoints}`)
    services.push({ ...(yield* ours(service(variant.name), database, prepare)), database })
  }
  for (const one of services) yield* drain(scene, one, deliveries)
  const [none = "", ...others] = variants.map(({ name }) => name)
  const comparison: Comparison = {
    title: "parked",
    names: [none, ...others],
    ratios: others.map((name) => [name, none] as const),
    rounds: yield* takeTurns(
      "parked",
      services,
      rounds,
      Effect.fnUntraced(function* (one) {
        const drained = yield* drain(scene, one, deliveries)
        return { ...drained, ...(yield* flow(one, endpoints, events, 20)), claimP95: yield* claims(one.database) }
      })
    )
  }
  return comparison
}, Effect.scoped)
