/** The number of sessions of a pool, counted by PostgreSQL. */
import { assert, layer } from "../../support/Vitest.ts"
import { Context, Duration, Effect, Fiber, Layer, Metric, Random } from "effect"
import { SqlClient } from "effect/sql"
import { vi } from "vitest"
import { sqlClients, DatabaseUrl } from "../../../src/sql/Connections.ts"
import { defaultConnections, type PoolId, pools, sizesOf } from "../../../src/platform/Pools.ts"
import { MetricsEnabled } from "../../../src/telemetry/Telemetry.ts"
import { TestDatabase } from "../../support/TestDatabase.ts"
import { until } from "../../support/Waiting.ts"

const url = Layer.unwrap(Effect.map(TestDatabase, ({ url }) => DatabaseUrl.at(url)))
const sizes = sizesOf(defaultConnections)

/** Returns the client of a pool of its own, whose connections are counted. */
const poolOf = Effect.fnUntraced(function* (id: Exclude<PoolId, "direct">) {
  const layer = Layer.provide(Layer.fresh(sqlClients[id]), url)
  const context = yield* Effect.provideService(Layer.build(layer), MetricsEnabled, true)
  return Context.get(context, SqlClient.SqlClient)
})

/** Returns the number of connections that a pool counts. */
const countedOf = (name: string) =>
  Effect.map(Metric.snapshot, (metrics) => {
    const counts = metrics.map((metric) =>
      metric.id === "db_client_connection_count" &&
      metric.type === "Gauge" &&
      metric.attributes?.["db.client.connection.pool.name"] === name
        ? Number(metric.state.value)
        : 0
    )
    return Math.max(...counts, 0)
  })

layer(TestDatabase.layer, { excludeTestServices: true })("a pool", (it) => {
  it.effect(
    "opens no more connections than its size, and counts as many, though statements are interrupted",
    function* () {
      const sql = yield* SqlClient.SqlClient
      // Statements of the other pools share connections, so they are not cancelled.
      for (const id of ["workers", "reports"] as const) {
        const { name } = pools[id]
        const pool = yield* poolOf(id)
        const most = { sessions: 0, counted: 0 }
        const look = Effect.gen(function* () {
          const [row] = yield* Effect.orDie(sql<{ count: number }>`
          SELECT count(*)::int AS count FROM pg_stat_activity
          WHERE datname = current_database() AND application_name = ${name}`)
          most.sessions = Math.max(most.sessions, row?.count ?? 0)
          most.counted = Math.max(most.counted, yield* countedOf(name))
        })
        // None ends by itself: PostgreSQL confirms each cancellation, and the session is kept.
        const statement = Effect.flatMap(Random.nextIntBetween(1, 40), (millis) =>
          Effect.timeoutOption(pool`SELECT pg_sleep(30)`, Duration.millis(millis))
        )
        const load = Effect.forEach(Array.from({ length: 30 }), () => Effect.replicateEffect(statement, 10), {
          concurrency: "unbounded"
        })
        yield* Effect.raceFirst(Effect.orDie(load), Effect.forever(look))
        assert.deepStrictEqual(most, { sessions: sizes[id], counted: sizes[id] }, id)
      }
    }
  )

  it.effect("opens no more connections than its size while it replaces them all, as they are old", function* () {
    for (const id of ["reads", "mutations", "workers", "reports"] as const) {
      const pool = yield* poolOf(id)
      const used = new Set<number>()
      let [most, done] = [0, 0]
      const statement = Effect.gen(function* () {
        // Some take long, so that a connection that is replaced while they run would be seen beside the new one.
        const [row] = yield* pool<{ pid: number }>`
          SELECT pg_backend_pid() AS pid, pg_sleep(CASE WHEN random() < 0.1 THEN 0.2 ELSE 0.005 END)`
        if (row !== undefined) used.add(row.pid)
        most = Math.max(most, yield* countedOf(pools[id].name))
        done++
      })
      const load = yield* Effect.forkChild(
        Effect.all(
          Array.from({ length: 40 }, () => Effect.forever(statement)),
          { concurrency: "unbounded" }
        )
      )
      yield* until(() => done > 200)
      assert.strictEqual(used.size, sizes[id])
      const now = performance.now.bind(performance)
      const clock = vi.spyOn(performance, "now").mockImplementation(() => now() + 600_000)
      yield* Effect.ensuring(
        until(() => used.size === 2 * sizes[id]),
        Effect.sync(() => clock.mockRestore())
      )
      yield* Fiber.interrupt(load)
      assert.strictEqual(most, sizes[id], id)
    }
  })
})
