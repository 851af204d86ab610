/** What deliveries that wait for parked endpoints cost healthy ones. */
import type { PgClient } from "@effect/sql-pg"
import { Effect } from "effect"
import { ProjectId } from "../../../src/api/Ids.ts"
import { anotherDatabase, service } from "../Stage.ts"
import { flow } from "./Flow.ts"
import { open, ours } from "./Ours.ts"
import type { Comparison } from "./Report.ts"
import type { Scene } from "./Scene.ts"
import { drain } from "./Throughput.ts"
import { takeTurns } from "./Turns.ts"
import { eventType, projectId, traceparent } from "./Work.ts"

export interface Options {
  readonly rounds: number
  /** To healthy endpoints, in a round. */
  readonly deliveries: number
  /** Commands after them, one by one, whose events have their time taken. */
  readonly events: number
  /** Deliveries that wait for parked endpoints. */
  readonly parked: number
}

const parkedProject = ProjectId.make("parked")

/** So many endpoints, dead for long, with an equal part each of what waits. */
const park = Effect.fnUntraced(function* (sql: PgClient.PgClient, dead: string, endpoints: number, deliveries: number) {
  yield* open(
    sql,
    parkedProject,
    Array.from({ length: endpoints }, () => dead),
    { subscribed: 0 }
  )
  yield* sql`
    UPDATE endpoint_health SET failures = 12, failed_probes = 2, parked_until = now() + interval '1 day'
    WHERE project_id = ${parkedProject}`
  yield* sql`
    WITH happened AS MATERIALIZED (
      SELECT n, new_id('evt', at) AS id, at
      FROM generate_series(1, ${deliveries}::int) n, LATERAL (SELECT now() - n * interval '100 milliseconds') AS past (at)
    ),
    event AS (
      INSERT INTO events (project_id, id, type, data, traceparent, occurred_at)
      SELECT ${parkedProject}::text, id, ${eventType}::text, json_build_object('deal', NULL), ${traceparent}::text, at
      FROM happened
    )
    INSERT INTO deliveries (project_id, id, installation_id, event_id, available_at, created_at)
    SELECT ${parkedProject}::text, new_id('dlv', at), installation.id, happened.id, at, at
    FROM happened JOIN (
      SELECT id, row_number() OVER (ORDER BY id) - 1 AS place FROM installations WHERE project_id = ${parkedProject}
    ) AS installation ON installation.place = happened.n % ${endpoints}::int`
  yield* sql`VACUUM ANALYZE events, deliveries`
})

export const measure = Effect.fnUntraced(function* (scene: Scene, options: Options) {
  const { deliveries, events, parked, rounds } = options
  const { endpoints, url } = scene
  const many = Math.max(1, Math.floor(parked / 1_000))
  const variants = [
    { name: "none parked", endpoints: 0 },
    { name: `1 x ${parked} parked`, endpoints: 1 },
    { name: `${many} x ${Math.floor(parked / many)} parked`, endpoints: many }
  ]
  const services = []
  for (const variant of variants) {
    const prepare = Effect.fnUntraced(function* (sql: PgClient.PgClient) {
      if (variant.endpoints > 0) yield* park(sql, endpoints.dead, variant.endpoints, parked)
      // A deal is one delivery.
      return yield* open(sql, projectId, endpoints.urls, { subscribed: 1 })
    })
    const database = yield* anotherDatabase(url, `parked_${variant.endpoints}`)
    services.push(yield* ours(service(variant.name), database, prepare))
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
        return { ...drained, ...(yield* flow(one, endpoints, events, 20)) }
      })
    )
  }
  return comparison
}, Effect.scoped)
