/** The number of sessions of a pool, counted by PostgreSQL. */
import { assert, layer } from "../../../support/Vitest.ts"
import { Context, Duration, Effect, Layer, Metric, Random } from "effect"
import { SqlClient } from "effect/sql"
import { clients, DatabaseUrl } from "../../../../src/platform/database/Database.ts"
import { defaultConnections, pools, sizesOf } from "../../../../src/platform/Pools.ts"
import { MetricsEnabled } from "../../../../src/platform/telemetry/MetricsEnabled.ts"
import { TestDatabase } from "../../../support/TestDatabase.ts"

const url = Layer.unwrap(Effect.map(TestDatabase, ({ url }) => DatabaseUrl.at(url)))
const sizes = sizesOf(defaultConnections)

layer(TestDatabase.layer, { excludeTestServices: true })("a pool", (it) => {
  it.effect(
    "opens no more connections than its size, and counts as many, though statements are interrupted",
    function* () {
      const sql = yield* SqlClient.SqlClient
      // Statements of the other pools share connections, so they are not cancelled.
      for (const id of ["workers", "reports"] as const) {
        const { name } = pools[id]
        const pool = Context.get(
          yield* Layer.build(Layer.provide(Layer.fresh(clients[id]), url)).pipe(
            Effect.provideService(MetricsEnabled, true)
          ),
          SqlClient.SqlClient
        )
        const most = { sessions: 0, counted: 0 }
        const look = Effect.gen(function* () {
          const [row] = yield* Effect.orDie(sql<{ count: number }>`
          SELECT count(*)::int AS count FROM pg_stat_activity
          WHERE datname = current_database() AND application_name = ${name}`)
          most.sessions = Math.max(most.sessions, row?.count ?? 0)
          for (const metric of yield* Metric.snapshot) {
            if (metric.id !== "db_client_connection_count" || metric.type !== "Gauge") continue
            if (metric.attributes?.["db_client_connection_pool_name"] !== name) continue
            most.counted = Math.max(most.counted, Number(metric.state.value))
          }
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
})
