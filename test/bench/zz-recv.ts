// receiver cost: graphile with 10k, receiver cpu
import { NodeRuntime, NodeServices } from "@effect/platform-node"
import { Effect } from "effect"
import { execSync } from "node:child_process"
import { make } from "./deliveries/Scene.ts"
import { drain } from "./deliveries/Throughput.ts"
import { graphileWorker } from "./deliveries/Opponents.ts"
import { anotherDatabase } from "./Stage.ts"
import { cpuMillis } from "./Cpu.ts"
Effect.gen(function* () {
  const scene = yield* make(50)
  const url = yield* anotherDatabase(scene.url, `t`)
  const one = yield* graphileWorker(url, scene.endpoints)
  const pid0 = Number(execSync("pgrep -n -f 'node test/bench/deliveries/receiver.ts'").toString().trim().split("\n")[0])
  console.log(execSync(`cat /proc/${1}/cmdline`).toString().slice(0, 1))
  const pid = Number(
    execSync(
      "for p in /proc/[0-9]*; do if tr '\\0' ' ' < $p/cmdline 2>/dev/null | grep -q '^[^ ]*node test/bench/deliveries/receiver'; then basename $p; fi; done"
    )
      .toString()
      .trim()
      .split("\n")[0]
  )
  for (let r = 0; r < 5; r++) {
    const a = cpuMillis(pid),
      t = process.cpuUsage()
    const { deliveriesPerSecond: d, cpuMicros: m, postgresMicros: p } = yield* drain(scene, one, 10000)
    console.log(`${d.toFixed(0)}/s own ${m.toFixed(0)} pg ${p.toFixed(0)} recv ${(cpuMillis(pid) - a) / 10}`)
  }
}).pipe(Effect.scoped, Effect.provide(NodeServices.layer), NodeRuntime.runMain)
