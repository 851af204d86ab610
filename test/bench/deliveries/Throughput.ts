/** Deliveries per second of work that is added at once, from the first arrival to the last recorded delivery. */
import type { PgClient } from "@effect/sql-pg"
import { Effect } from "effect"
import { childrenMillis, cpuMillis } from "../Cpu.ts"
import { compare, text } from "../Report.ts"
import { projectId } from "../requests/Seed.ts"
import { anotherDatabase, service } from "../Stage.ts"
import { type Scene, until } from "./Scene.ts"
import { graphileWorker, pgBoss } from "./Opponents.ts"
import { open, ours } from "./Ours.ts"
import { type Contender, makeWork } from "./Work.ts"

/** Runs one round of a contender. */
const drain = Effect.fnUntraced(function* ({ endpoints, postmaster }: Scene, contender: Contender, deliveries: number) {
  const work = yield* makeWork(deliveries, endpoints.urls.length)
  yield* endpoints.forget
  const before = cpuMillis(contender.pid)
  yield* contender.give(work)
  const given = childrenMillis(postmaster)
  const { first } = yield* endpoints.received(deliveries)
  yield* until(`${contender.name} does not finish`, contender.done, (done) => done)
  const millis = Date.now() - first
  const cpuMicros = ((cpuMillis(contender.pid) - before) * 1000) / deliveries
  const postgresMicros = ((childrenMillis(postmaster) - given) * 1000) / deliveries
  return {
    deliveriesPerSecond: (deliveries * 1000) / millis,
    cpuMicros,
    postgresMicros,
    bothMicros: cpuMicros + postgresMicros
  }
})

const fields = ["deliveriesPerSecond", "cpuMicros", "postgresMicros", "bothMicros"] as const

/** Deliveries in flight to each endpoint: as configured by default to many, and 32 to one. */
const perEndpointOf = (endpoints: number) => (endpoints === 1 ? 32 : 4)

/** Measures the service and its opponents with this many endpoints. */
export const measure = Effect.fnUntraced(function* (
  whole: Scene,
  count: number,
  { deliveries, rounds }: { readonly deliveries: number; readonly rounds: number }
) {
  const endpoints = { ...whole.endpoints, urls: whole.endpoints.urls.slice(0, count) }
  const databaseOf = (name: string) => anotherDatabase(whole.url, `${name}_${count}`)
  const prepare = (sql: PgClient.PgClient) => open(sql, projectId, endpoints.urls)
  const perEndpoint = perEndpointOf(count)
  const contenders = [
    yield* ours(service("ours", undefined, "--role", "worker"), yield* databaseOf("ours"), prepare, {
      WEBHOOK_ENDPOINT_CONCURRENCY: String(perEndpoint)
    }),
    yield* graphileWorker(yield* databaseOf("graphile_worker"), endpoints, perEndpoint * count),
    yield* pgBoss(yield* databaseOf("pg_boss"), endpoints, perEndpoint * count)
  ]
  const title = `endpoints: ${count}, in flight to each: ${perEndpoint}`
  const run = (contender: Contender) => drain({ ...whole, endpoints }, contender, deliveries)
  return text(fields, yield* compare(title, contenders, rounds, fields, run))
}, Effect.scoped)
