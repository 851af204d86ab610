/** Deliveries a second: work that is there at once, from the first that arrives to the last one recorded. */
import { Effect, Option } from "effect"
import { childrenMillis, cpuMillis } from "../Cpu.ts"
import { anotherDatabase, service } from "../Stage.ts"
import type { Contender } from "./Contender.ts"
import { until } from "./Endpoints.ts"
import { graphileWorker, pgBoss } from "./Opponents.ts"
import { open, ours } from "./Ours.ts"
import type { Comparison } from "./Report.ts"
import type { Scene } from "./Scene.ts"
import { takeTurns } from "./Turns.ts"
import { makeWork, projectId } from "./Work.ts"

/** One round of a contender. */
export const drain = Effect.fnUntraced(function* (
  { endpoints, postmaster }: Scene,
  contender: Contender,
  deliveries: number
) {
  const work = yield* makeWork(deliveries, endpoints.urls.length)
  yield* endpoints.forget
  const before = { own: cpuMillis(contender.pid), postgres: childrenMillis(postmaster) }
  yield* contender.give(work)
  const given = childrenMillis(postmaster)
  const { first } = yield* endpoints.received(deliveries)
  yield* until(`${contender.name} does not finish`, contender.done, (done) => done)
  const millis = Date.now() - first
  const micros = (from: number, to: number) => ((to - from) * 1000) / deliveries
  return {
    deliveriesPerSecond: (deliveries * 1000) / millis,
    cpuMicros: micros(before.own, cpuMillis(contender.pid)),
    postgresMicros: micros(given, childrenMillis(postmaster))
  }
})

export interface Options {
  readonly deliveries: number
  readonly rounds: number
  readonly profile: Option.Option<string>
}

/** The service beside its opponents. */
export const measure = Effect.fnUntraced(function* (scene: Scene, { deliveries, profile, rounds }: Options) {
  const { endpoints, url } = scene
  const program = service("ours", { role: "worker", profile: Option.getOrUndefined(profile) })
  const contenders = [
    yield* ours(program, yield* anotherDatabase(url, "ours"), (sql) =>
      open(sql, projectId, endpoints.urls, { subscribed: endpoints.urls.length })
    ),
    yield* graphileWorker(yield* anotherDatabase(url, "graphile_worker"), endpoints),
    yield* pgBoss(yield* anotherDatabase(url, "pg_boss"), endpoints)
  ]
  // Nobody's first deliveries count: code is compiled and connections are opened.
  for (const contender of contenders) yield* drain(scene, contender, deliveries)
  const comparison: Comparison = {
    title: "throughput",
    names: contenders.map(({ name }) => name),
    ratios: [
      ["ours", "graphile-worker"],
      ["ours", "pg-boss"]
    ],
    rounds: yield* takeTurns("throughput", contenders, rounds, (contender) => drain(scene, contender, deliveries))
  }
  return comparison
}, Effect.scoped)
