/** Mutations that may take seconds: no request waits behind them, and they have more time than others. */
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { bulkLayer, bulkTimeout, capacityOf, StatementTimeout } from "./Database.ts"
import { makeMutationClient, type MutationClient } from "./idempotency/Mutations.ts"

export class Bulk extends Context.Service<
  Bulk,
  {
    /** A client of their own. */
    readonly mutations: MutationClient
    /** Waits for a mutation as long as one of these may take. */
    readonly patiently: <A, E, R>(mutation: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  }
>()("developer-api/platform/Bulk") {
  static readonly layer = Layer.effect(
    Bulk,
    Effect.gen(function* () {
      const reads = yield* SqlClient.SqlClient
      const sql = Context.get(yield* Layer.build(bulkLayer), SqlClient.SqlClient)
      return {
        mutations: makeMutationClient({ sql, reads, permits: yield* capacityOf("bulk") }),
        patiently: Effect.provideService(StatementTimeout, bulkTimeout)
      }
    })
  )
}
