/** For the few commands that may take seconds: no request waits behind them, and they have more time than others. */
import { Context, Effect, Layer, PartitionedSemaphore } from "effect"
import { SqlClient } from "effect/sql"
import type { ProjectId } from "../api/Ids.ts"
import { bulkLayer, bulkPatience, Patience } from "./Database.ts"
import { Turns } from "./idempotency/Idempotency.ts"

/** Of one process. More would only slow each other down, and take processors from the requests. */
const connections = 2

export class Bulk extends Context.Service<
  Bulk,
  {
    /** A client of their own. */
    readonly sql: SqlClient.SqlClient
    /** Runs a mutation on it in its turn, projects taking turns fairly, and waits for it as long as such may take. */
    readonly patiently: <A, E, R>(mutation: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  }
>()("developer-api/platform/Bulk") {
  static readonly layer = Layer.effect(
    Bulk,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const turns = PartitionedSemaphore.makeUnsafe<ProjectId>({ permits: connections })
      return {
        sql,
        patiently: (mutation) =>
          mutation.pipe(Effect.provideService(Turns, turns), Effect.provideService(Patience, bulkPatience))
      }
    })
  ).pipe(Layer.provide(bulkLayer(connections)))
}
