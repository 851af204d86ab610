/** The client of `@effect/sql-pg`, wrapped to record each statement that is built with it, and the place that builds it. */
import * as PgClient from "@effect/sql-pg/PgClient"
import { Effect } from "effect"
import { record } from "./Recorded.ts"

export * from "@effect/sql-pg/PgClient"

const recording = (client: PgClient.PgClient, pool: PgClient.PgPoolConfig): PgClient.PgClient =>
  new Proxy(client, {
    apply: (target, _, args) => {
      const built: unknown = Reflect.apply(target, undefined, args)
      record(built, args, pool)
      return built
    }
  })

export const layer = (pool: PgClient.PgPoolConfig) =>
  PgClient.layerFrom(Effect.map(PgClient.make(pool), (client) => recording(client, pool)))
