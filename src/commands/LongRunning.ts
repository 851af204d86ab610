/** Long-running mutations. They share a pool with reports, at most half of its connections, and have a longer timeout than other mutations. */
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { capacityOf, clients, longRunningTimeout, StatementTimeout } from "../sql/Database.ts"
import { makeMutationClient, type MutationClient } from "./Mutations.ts"

export class LongRunning extends Context.Service<
  LongRunning,
  {
    readonly mutations: MutationClient
    readonly withLongTimeout: <A, E, R>(mutation: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  }
>()("developer-api/commands/LongRunning") {
  static readonly layer = Layer.effect(
    LongRunning,
    Effect.gen(function* () {
      const reads = yield* SqlClient.SqlClient
      const sql = Context.get(yield* Layer.build(clients.reports), SqlClient.SqlClient)
      return {
        mutations: makeMutationClient({ sql, reads, permits: Math.ceil((yield* capacityOf("reports")) / 2) }),
        withLongTimeout: Effect.provideService(StatementTimeout, longRunningTimeout)
      }
    })
  )
}
