import { NodeRuntime, NodeServices } from "@effect/platform-node"
import { Effect, Redacted } from "effect"
import { readFileSync, appendFileSync } from "node:fs"
import { make } from "./deliveries/Scene.ts"
import { drain } from "./deliveries/Throughput.ts"
import { open, ours } from "./deliveries/Ours.ts"
import { graphileWorker, pgBoss } from "./deliveries/Opponents.ts"
import { anotherDatabase, service } from "./Stage.ts"
import { projectId } from "./deliveries/Work.ts"
// usage: zz-ab rounds endpoints variant... ; variant: "gw", "pb", or ENV=V,ENV=V
const [rounds = "5", k = "50", ...variants] = process.argv.slice(2)
const busy = () => {
  const f = readFileSync("/proc/stat", "utf8").split("\n")[0]!.trim().split(/\s+/).slice(1).map(Number)
  return { idle: f[3]! + f[4]!, all: f.slice(0, 8).reduce((a, b) => a + b, 0) }
}
Effect.gen(function* () {
  const scene = yield* make(Number(k))
  const all: Array<any> = []
  for (const [i, v] of variants.entries()) {
    const url = yield* anotherDatabase(scene.url, `t${i}`)
    if (v === "gw") all.push({ v, one: yield* graphileWorker(url, scene.endpoints) })
    else if (v === "pb") all.push({ v, one: yield* pgBoss(url, scene.endpoints) })
    else {
      for (const kv of v.split(",")) {
        const [a, b] = [kv.slice(0, kv.indexOf("=")), kv.slice(kv.indexOf("=") + 1)]
        if (a && b) process.env[a] = b
      }
      const base = v === "base"
      if (base) {
        process.env["BASE_DIR"] = "/tmp/h-base"
        process.env["BASE_URL"] = Redacted.value(url)
      } else delete process.env["BASE_DIR"]
      all.push({
        v,
        one: yield* ours(service("ours", { role: "worker", directory: base ? "/tmp/h-base" : undefined }), url, (sql) =>
          open(sql, projectId, scene.endpoints.urls, { subscribed: 1 })
        )
      })
      for (const kv of v.split(",")) {
        const [a] = kv.split("=")
        if (a) delete process.env[a]
      }
    }
  }
  for (let r = 0; r < Number(rounds); r++) {
    for (const { v, one } of [...all.slice(r % all.length), ...all.slice(0, r % all.length)]) {
      const a = busy(),
        t = performance.now(),
        c = process.cpuUsage()
      const { deliveriesPerSecond: d, cpuMicros: m, postgresMicros: p } = yield* drain(scene, one, 10000)
      const b = busy(),
        u = process.cpuUsage(c)
      const total = (b.all - a.all - (b.idle - a.idle)) * 10
      const mine = (m + p + 22) * 10 + (u.user + u.system) / 1000 + 500
      const others = (total - mine) / (performance.now() - t)
      console.log(
        `${r} ${v.padEnd(24)} ${d.toFixed(0).padStart(6)}/s own ${m.toFixed(0)} pg ${p.toFixed(0)} others ${others.toFixed(2)}`
      )
    }
  }
}).pipe(Effect.scoped, Effect.provide(NodeServices.layer), NodeRuntime.runMain)
