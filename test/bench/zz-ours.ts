import { NodeRuntime, NodeServices } from "@effect/platform-node"
import { Effect } from "effect"
import { make } from "./deliveries/Scene.ts"
import { drain } from "./deliveries/Throughput.ts"
import { open, ours } from "./deliveries/Ours.ts"
import { anotherDatabase, service } from "./Stage.ts"
import { projectId } from "./deliveries/Work.ts"
const [n = "5", profile, count = "10000"] = process.argv.slice(2)
Effect.gen(function* () {
  const scene = yield* make(Number(process.env["K"] ?? 50))
  const url = yield* anotherDatabase(scene.url, `t`)
  const one = yield* ours(service("ours", { role: "worker", profile: profile || undefined }), url, (sql) =>
    open(sql, projectId, scene.endpoints.urls, { subscribed: 1 })
  )

  if (process.env["PGFLAGS"]) yield* one.sql`CREATE EXTENSION IF NOT EXISTS pg_stat_statements`
  for (let r = 0; r < Number(n); r++) {
    const { deliveriesPerSecond: d, cpuMicros: m, postgresMicros: p } = yield* drain(scene, one, Number(count))
    console.log(`${d.toFixed(0)}/s own ${m.toFixed(0)} pg ${p.toFixed(0)}`)
  }
  const log = (yield* one.sql`SELECT current_setting('data_directory') AS d`)[0].d
  yield* Effect.promise(() =>
    import("node:fs/promises").then((f) => f.cp(log + "/../postgres.log", "/tmp/h-pg.log").catch(() => {}))
  )
  if (process.env["PGFLAGS"]) {
    const rows =
      yield* one.sql`SELECT calls, round(total_exec_time::numeric) AS ms, round((mean_exec_time*1000)::numeric) AS "meanUs", rows, round((mean_plan_time*1000)::numeric) plan, shared_blks_hit AS hit, wal_records AS wal, wal_fpi AS fpi, round(wal_bytes/1e6) AS "walMB", left(regexp_replace(query, E'\\s+', ' ', 'g'), 70) AS q FROM pg_stat_statements ORDER BY total_exec_time DESC LIMIT 8`
    console.table(rows)
  }
}).pipe(Effect.scoped, Effect.provide(NodeServices.layer), NodeRuntime.runMain)
