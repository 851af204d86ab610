/** The connections of mutations, and the permits to use them. */
import { Context, Effect, Layer, PartitionedSemaphore } from "effect"
import { SqlClient } from "effect/sql"
import type { ProjectId } from "../../api/Ids.ts"
import { mutationsLayer } from "../Database.ts"
import { pools, sizeOf } from "../Database/Pools.ts"
import { Settings } from "../Settings.ts"

/**
 * A client and its permits: the mutations of this process that may be at the database at once, shared fairly among the
 * projects that want some. Those of one project can wait for each other (its contact capacity is one row); a project
 * whose mutations wait holds no more permits than the others leave.
 */
export interface MutationClient {
  readonly sql: SqlClient.SqlClient
  readonly permits: PartitionedSemaphore.PartitionedSemaphore<ProjectId>
}

export const makeMutationClient = (sql: SqlClient.SqlClient, permits: number): MutationClient => ({
  sql,
  permits: PartitionedSemaphore.makeUnsafe({ permits })
})

/** The mutations of requests. */
export class Mutations extends Context.Service<Mutations, MutationClient>()(
  "developer-api/platform/idempotency/Mutations"
) {
  static readonly layer = Layer.effect(
    Mutations,
    Effect.gen(function* () {
      const { databaseMaxConnections } = yield* Settings
      const permits = sizeOf(pools.mutations, databaseMaxConnections) * pools.mutations.pipelined
      return makeMutationClient(yield* SqlClient.SqlClient, permits)
    })
  ).pipe(Layer.provide(mutationsLayer))
}
