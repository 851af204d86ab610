/** The connections of mutations, and the permits to use them. */
import { Context, Effect, Layer, PartitionedSemaphore } from "effect"
import { SqlClient } from "effect/sql"
import type { ProjectId } from "../../api/Ids.ts"
import type { ServiceUnavailable } from "../../api/Problems.ts"
import { capacityOf, mutationsLayer } from "../Database.ts"
import type { Command } from "./Idempotency.ts"
import { type Stored, storedOutcomes } from "./Outcomes.ts"
import { RecentKeys } from "./RecentKeys.ts"

export interface MutationClient {
  readonly sql: SqlClient.SqlClient
  /**
   * For the mutations of this process that may wait for rows at once, shared fairly among the projects that want some: a
   * project whose mutations wait holds no more permits than the others leave.
   */
  readonly permits: PartitionedSemaphore.PartitionedSemaphore<ProjectId>
  /** Looks up the outcome of a key's first run. */
  readonly stored: (command: Command) => Effect.Effect<Stored | undefined, ServiceUnavailable>
  readonly keys: RecentKeys
}

/** A client on the connections of `sql`, which looks up outcomes on those of `reads`. */
export const makeMutationClient = (options: {
  readonly sql: SqlClient.SqlClient
  readonly reads: SqlClient.SqlClient
  readonly permits: number
}): MutationClient => ({
  sql: options.sql,
  permits: PartitionedSemaphore.makeUnsafe({ permits: options.permits }),
  stored: storedOutcomes(options.reads),
  keys: new RecentKeys()
})

/** The mutations of requests. */
export class Mutations extends Context.Service<Mutations, MutationClient>()(
  "developer-api/platform/idempotency/Mutations"
) {
  static readonly layer = Layer.effect(
    Mutations,
    Effect.gen(function* () {
      const reads = yield* SqlClient.SqlClient
      const sql = Context.get(yield* Layer.build(mutationsLayer), SqlClient.SqlClient)
      // The others are for groups, which never wait for a record.
      const permits = Math.max(1, Math.floor((yield* capacityOf("mutations")) / 2))
      return makeMutationClient({ sql, reads, permits })
    })
  )
}
