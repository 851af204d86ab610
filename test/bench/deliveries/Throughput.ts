/** Deliveries per second of work that is added at once, from the first arrival to the last recorded delivery. */
import type { PgClient } from "@effect/sql-pg"
import { Effect } from "effect"
import { childrenMillis, cpuMillis } from "../Cpu.ts"
import { anotherDatabase, service } from "../Stage.ts"
import type { Contender } from "./Protocol.ts"
import { until } from "./Endpoints.ts"
import { graphileWorker, pgBoss } from "./Opponents.ts"
import { open, ours } from "./Ours.ts"
import type { Comparison, Figures } from "./Report.ts"
import type { Scene } from "./Scene.ts"
import { makeWork, projectId } from "./Work.ts"
import { progress } from "../Options.ts"

/** Runs one round of a contender. */
export const drain = Effect.fnUntraced(function* (
  { endpoints, postmaster }: Scene,
  contender: Contender,
  deliveries: number
) {
  const work = yield* makeWork(deliveries, endpoints.urls.length)
  yield* endpoints.forget
  const before = cpuMillis(contender.pid)
  yield* contender.give(work)
  const given = childrenMillis(postmaster)
  const { first } = yield* endpoints.received(deliveries)
  yield* until(`${contender.name} does not finish`, contender.done, (done) => done)
  const millis = Date.now() - first
  const micros = (from: number, to: number) => ((to - from) * 1000) / deliveries
  const cpuMicros = micros(before, cpuMillis(contender.pid))
  const postgresMicros = micros(given, childrenMillis(postmaster))
  return {
    deliveriesPerSecond: (deliveries * 1000) / millis,
    cpuMicros,
    postgresMicros,
    bothMicros: cpuMicros + postgresMicros
  }
})

export interface Options {
  readonly deliveries: number
  readonly rounds: number
}

/** Distribution of the work: endpoints, and deliveries in flight per endpoint and in total. */
interface Shape {
  readonly title: string
  readonly endpoints: number
  readonly perEndpoint: number
  readonly inFlight: number
}

/** Four deliveries in flight to each of many endpoints, as configured by default. */
export const many = (endpoints: number): Shape => ({
  title: `${endpoints} endpoints`,
  endpoints,
  perEndpoint: 4,
  inFlight: 4 * endpoints
})

export const one: Shape = { title: "one endpoint, 32 in flight", endpoints: 1, perEndpoint: 32, inFlight: 32 }

/** Measures the service and its opponents. */
export const measure = Effect.fnUntraced(function* (whole: Scene, { deliveries, rounds }: Options, shape: Shape) {
  const { url } = whole
  const endpoints = { ...whole.endpoints, urls: whole.endpoints.urls.slice(0, shape.endpoints) }
  const scene = { ...whole, endpoints }
  const program = service("ours", { role: "worker" })
  const name = (of: string) => `${of}_${shape.endpoints}`
  const prepare = (sql: PgClient.PgClient) =>
    open(sql, projectId, endpoints.urls, { subscribed: endpoints.urls.length })
  const contenders = [
    yield* ours(program, yield* anotherDatabase(url, name("ours")), prepare, {
      WEBHOOK_ENDPOINT_CONCURRENCY: String(shape.perEndpoint)
    }),
    yield* graphileWorker(yield* anotherDatabase(url, name("graphile_worker")), endpoints, shape.inFlight),
    yield* pgBoss(yield* anotherDatabase(url, name("pg_boss")), endpoints, shape.inFlight)
  ]
  // The first round is not counted: code is compiled and connections are opened.
  for (const contender of contenders) yield* drain(scene, contender, deliveries)
  const comparison: Comparison = {
    title: shape.title,
    names: contenders.map(({ name }) => name),
    ratios: [
      ["ours", "graphile-worker"],
      ["ours", "pg-boss"]
    ],
    rounds: yield* takeTurns(shape.title, contenders, rounds, (contender) => drain(scene, contender, deliveries))
  }
  return comparison
}, Effect.scoped)

/** Runs rounds of all contenders in an order that rotates from round to round. Returns the figures of each round by name. */
const takeTurns = Effect.fnUntraced(function* <A extends { readonly name: string }, E, R>(
  what: string,
  all: ReadonlyArray<A>,
  rounds: number,
  run: (one: A) => Effect.Effect<Figures, E, R>
) {
  const done: Array<Readonly<Record<string, Figures>>> = []
  for (let i = 0; i < rounds; i++) {
    const figures: Record<string, Figures> = {}
    const order = [...all.slice(i % all.length), ...all.slice(0, i % all.length)]
    for (const one of order) {
      const found = yield* run(one)
      figures[one.name] = found
      const line = Object.entries(found).map(([name, value]) => `${name} ${value.toFixed(1)}`)
      yield* progress(`${what} ${i + 1}/${rounds}: ${one.name}: ${line.join(", ")}`)
    }
    done.push(figures)
  }
  return done
})
