// scratch: tune opponents
import { NodeRuntime, NodeServices } from "@effect/platform-node"
import { Effect } from "effect"
import { make } from "/tmp/h-bench/test/bench/deliveries/Scene.ts"
import { drain } from "/tmp/h-bench/test/bench/deliveries/Throughput.ts"
import { graphileWorker, pgBoss } from "/tmp/h-bench/test/bench/deliveries/Opponents.ts"
import { anotherDatabase } from "/tmp/h-bench/test/bench/Stage.ts"
const which = process.argv[2]
const configs = process.argv.slice(3)
Effect.gen(function* () {
  const scene = yield* make(50)
  const rounds = 3
  for (const [i, c] of configs.entries()) {
    yield* Effect.scoped(
      Effect.gen(function* () {
        process.env.TUNE = c
        const url = yield* anotherDatabase(scene.url, `t_${i}`)
        const one = yield* (which === "gw" ? graphileWorker : pgBoss)(url, scene.endpoints)
        yield* drain(scene, one, 10000)
        const rs = []
        for (let r = 0; r < rounds; r++) rs.push(yield* drain(scene, one, 10000))
        console.log(
          c,
          rs
            .map(
              ({ deliveriesPerSecond: d, cpuMicros: m, postgresMicros: p }) =>
                `${d.toFixed(0)} ${m.toFixed(0)} ${p.toFixed(0)}`
            )
            .join(" | ")
        )
      })
    )
  }
}).pipe(Effect.scoped, Effect.provide(NodeServices.layer), NodeRuntime.runMain)
