/** Provides the connections of mutations and the permits to use them, and looks up the stored outcomes of idempotency keys. */
import { Context, Effect, Layer, PartitionedSemaphore } from "effect"
import { SqlClient } from "effect/sql"
import type { ProjectId } from "../api/schema/Ids.ts"
import type { ServiceUnavailable } from "../api/Problems.ts"
import { coalesce } from "../sql/Batches.ts"
import { capacityOf, clients, longRunningTimeout, retryContended, StatementTimeout } from "../sql/Database.ts"
import { plannedOnce } from "../sql/Lookups.ts"
import { hashOf } from "../platform/NameHash.ts"

interface Key {
  readonly projectId: ProjectId
  readonly key: string
}

/** The outcome of the first command with a key. */
export interface Stored {
  readonly fingerprint: Uint8Array
  readonly resourceId: string
  readonly changed: boolean
  readonly version: number | null
}

export interface MutationClient {
  readonly sql: SqlClient.SqlClient
  /**
   * Permits for mutations that may wait for rows. The projects share them fairly: a project whose mutations wait for rows does
   * not take the permits that other projects ask for.
   */
  readonly permits: PartitionedSemaphore.PartitionedSemaphore<ProjectId>
  readonly stored: (key: Key) => Effect.Effect<Stored | undefined, ServiceUnavailable>
  /**
   * The keys under which this process has recently found or stored an outcome. A command with such a key is probably a
   * repetition.
   */
  readonly keys: RecentKeys
}

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

export class Mutations extends Context.Service<Mutations, MutationClient>()("developer-api/commands/Mutations") {
  static readonly layer = Layer.effect(
    Mutations,
    Effect.gen(function* () {
      const reads = yield* SqlClient.SqlClient
      const sql = Context.get(yield* Layer.build(clients.mutations), SqlClient.SqlClient)
      // Half of the capacity is for mutations that may wait. The other half is for groups, which never wait for a record.
      const permits = Math.max(1, Math.floor((yield* capacityOf("mutations")) / 2))
      return makeMutationClient({ sql, reads, permits })
    })
  )
}

/** Number of places in a `RecentKeys`. It is a power of two, because the place is found by a bit mask. */
const recentKeys = 32_768

/**
 * A bounded set of keys in a fixed amount of memory. The hash of a key determines its place, and a later key with the same place
 * replaces it. A key whose hash equals the hash in its place seems to be in the set, and its command then costs an additional
 * look-up.
 */
class RecentKeys {
  private readonly hashes = new Int32Array(recentKeys)

  has({ key, projectId }: Key): boolean {
    const hash = hashOf(projectId, key)
    return this.hashes[hash & (recentKeys - 1)] === hash
  }

  add({ key, projectId }: Key): void {
    const hash = hashOf(projectId, key)
    this.hashes[hash & (recentKeys - 1)] = hash
  }
}

const maxBatch = 64

const storedOutcomes = (
  sql: SqlClient.SqlClient
): ((key: Key) => Effect.Effect<Stored | undefined, ServiceUnavailable>) =>
  coalesce(maxBatch, (keys) =>
    Effect.map(
      retryContended(sql<Stored | { readonly fingerprint: null }>`
        SELECT fingerprint, resource_id AS "resourceId", changed, version
        FROM unnest(${keys.map(({ projectId }) => projectId)}::text[], ${keys.map(({ key }) => key)}::text[])
               WITH ORDINALITY AS wanted (project_id, key, ordinal)
          LEFT JOIN idempotency_keys USING (project_id, key)
        WHERE ${sql.literal(plannedOnce)}
        ORDER BY ordinal`),
      (rows) => rows.map((row) => (row.fingerprint === null ? undefined : row))
    )
  )

/** Long-running mutations. They share a pool with reports, at most half of its connections, and have a longer timeout than others. */
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
