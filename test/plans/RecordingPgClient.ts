/** The client of `@effect/sql-pg`, wrapped to record each statement that is built with it, and the place that builds it. */
import * as PgClient from "@effect/sql-pg/PgClient"
import { Effect } from "effect"
import { recording } from "./Recorded.ts"

export * from "@effect/sql-pg/PgClient"

export const layer = (pool: PgClient.PgPoolConfig) =>
  PgClient.layerFrom(Effect.map(PgClient.make(pool), (client) => recording(client, pool)))
