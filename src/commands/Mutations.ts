/**
 * Runs mutations: the connections and the permits to use them, the stored outcomes of idempotency keys, and the outcome of a command,
 * from the row of its statement or from what is stored under its key.
 */
import { Context, Effect, Layer, PartitionedSemaphore } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { ProjectId } from "../api/schema/Ids.ts"
import { IdempotencyKeyReused, type ServiceUnavailable } from "../api/Problems.ts"
import { coalesce } from "../sql/Batches.ts"
import { plannedOnce } from "../sql/Lookups.ts"
import { capacityOf, sqlClients } from "../sql/Connections.ts"
import {
  Contended,
  longRunningTimeout,
  ProjectLocked,
  retryContended,
  statement,
  StatementTimeout
} from "../sql/Database.ts"
import { DeliveryPace, type Pace } from "../work/DeliveryPace.ts"
import { hashOf } from "../platform/Ids.ts"
import { type CommandRow, commandStatement } from "./Kind.ts"
import { type Command, type Mutation, originOf, type Outcome, type Problems } from "./Command.ts"

interface Key {
  readonly projectId: ProjectId
  readonly key: string
}

/** The outcome of the first command with a key. */
interface Stored {
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
  /** Waits until a command of a project may run (`work/DeliveryPace.ts`). */
  readonly waitForTurn: Pace["waitForTurn"]
}

export const makeMutationClient = (options: {
  readonly sql: SqlClient.SqlClient
  readonly reads: SqlClient.SqlClient
  readonly permits: number
  readonly waitForTurn?: Pace["waitForTurn"]
}): MutationClient => ({
  sql: options.sql,
  permits: PartitionedSemaphore.makeUnsafe({ permits: options.permits }),
  stored: storedOutcomes(options.reads),
  keys: new RecentKeys(),
  waitForTurn: options.waitForTurn ?? (() => Effect.void)
})

export class Mutations extends Context.Service<Mutations, MutationClient>()(
  "developer-api-service/commands/Mutations"
) {
  static readonly layer = Layer.effect(
    Mutations,
    Effect.gen(function* () {
      const reads = yield* SqlClient.SqlClient
      const sql = Context.get(yield* Layer.build(sqlClients.mutations), SqlClient.SqlClient)
      // Half of the capacity is for mutations that may wait. The other half is for groups, which never wait for a record.
      const permits = Math.max(1, Math.floor((yield* capacityOf("mutations")) / 2))
      const { waitForTurn } = yield* DeliveryPace
      return makeMutationClient({ sql, reads, permits, waitForTurn })
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

/** Maximum number of keys that one statement looks up. */
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
>()("developer-api-service/commands/Mutations/LongRunning") {
  static readonly layer = Layer.effect(
    LongRunning,
    Effect.gen(function* () {
      const reads = yield* SqlClient.SqlClient
      const sql = Context.get(yield* Layer.build(sqlClients.reports), SqlClient.SqlClient)
      return {
        mutations: makeMutationClient({ sql, reads, permits: Math.ceil((yield* capacityOf("reports")) / 2) }),
        withLongTimeout: Effect.provideService(StatementTimeout, longRunningTimeout)
      }
    })
  )
}

/**
 * Runs a mutation. If this process has recently seen the key, the stored outcome is looked up first, because a look-up costs
 * less than the mutation. The mutation waits for its turn. A stored outcome is replayed even while the project is locked.
 */
export const replayOrRun = <Returned, E>(
  client: MutationClient,
  command: Command,
  run: Effect.Effect<Outcome<Returned>, E>
): Effect.Effect<Outcome<Returned>, E | IdempotencyKeyReused | ServiceUnavailable> => {
  const { keys, stored, waitForTurn } = client
  const inTurn = Effect.andThen(waitForTurn(command.projectId), run)
  const replayOr = <E2>(otherwise: Effect.Effect<Outcome<Returned>, E2>) =>
    Effect.flatMap(stored(command), (first): Effect.Effect<Outcome<Returned>, E2 | IdempotencyKeyReused> =>
      first === undefined ? otherwise : replay(command, first)
    )
  return Effect.catchIf(
    keys.has(command) ? replayOr(inTurn) : inTurn,
    (error): error is E & ProjectLocked => error instanceof ProjectLocked,
    (locked) => replayOr(Effect.fail(locked))
  )
}

export const outcomeOf = <Problem, Returned>(
  client: MutationClient,
  command: Command,
  problems: Problems<Problem>,
  run: Effect.Effect<CommandRow<Returned>, ServiceUnavailable>
): Effect.Effect<Outcome<Returned>, Problem | IdempotencyKeyReused | ServiceUnavailable> =>
  Effect.flatMap(run, (row) => {
    if (row.applied) {
      client.keys.add(command)
      return Effect.succeed({ ...receipt(row), replayed: false, returned: row.returned })
    }
    // A stored outcome takes precedence over a failed guard: the guard may fail because of the first run's effect.
    return Effect.flatMap(client.stored(command), (first) => {
      if (first !== undefined) {
        client.keys.add(command)
        return replay(command, first)
      }
      if (row.failure !== null) return problemOf(row.failure, row, problems)
      // The key was taken when the statement ran, and was pruned before the look-up. It is free for the next run.
      return outcomeOf(client, command, problems, run)
    })
  })

const replay = ({ fingerprint }: Command, first: Stored): Effect.Effect<Outcome<never>, IdempotencyKeyReused> =>
  Buffer.compare(first.fingerprint, fingerprint) === 0
    ? Effect.succeed({ ...receipt(first), replayed: true, returned: null })
    : Effect.fail(new IdempotencyKeyReused())

const problemOf = <Problem>(
  failure: string,
  { faults, version }: Pick<CommandRow<unknown>, "faults" | "version">,
  problems: Problems<Problem>
): Effect.Effect<never, Problem> => {
  const problem = problems[failure]
  return problem === undefined
    ? Effect.die(new Error(`A mutation failed for an unknown reason: ${failure}`))
    : Effect.fail(problem({ version, faults: faults ?? [] }))
}

const receipt = ({ changed, resourceId, version }: Pick<Stored, "changed" | "resourceId" | "version">) => ({
  resourceId,
  changed,
  version
})

/**
 * Runs a mutation once per key, in one round trip. If nothing was applied (a replay, a reused key or a failed guard), another
 * round trip reads the stored outcome of the key. For a key that this process has recently seen, the outcome is read first.
 */
export const mutate = <Problem, Returned = null>(
  client: MutationClient,
  command: Command,
  { at, decided, effect, problems, returning }: Mutation<Problem>
): Effect.Effect<Outcome<Returned>, Problem | IdempotencyKeyReused | ServiceUnavailable> => {
  const { sql } = client
  const { fingerprint, ifMatch = null, key, projectId } = command
  const text = Effect.withFiber((fiber) =>
    commandStatement<Returned>(sql, {
      requested: sql`
        SELECT 1 AS ord, ${projectId}::text COLLATE "C" AS project_id, ${key}::text COLLATE "C" AS key,
          ${fingerprint}::bytea AS fingerprint, ${at}::timestamptz AS at,
          ${ifMatch}::bigint[] AS "ifMatch", ${originOf(fiber, command.operation)}::text[] AS origin`,
      isOne: true,
      decided,
      effect,
      returning
    })
  )
  return replayOrRun(client, command, outcomeOf(client, command, problems, alone(client, projectId, text)))
}

/** Runs the statement of one command, which may wait for rows. Without a row, its project is locked or has changed. */
export const alone = <Returned>(
  { permits }: MutationClient,
  projectId: ProjectId,
  run: Effect.Effect<ReadonlyArray<CommandRow<Returned>>, SqlError.SqlError>
): Effect.Effect<CommandRow<Returned>, ServiceUnavailable> =>
  Effect.flatMap(run, ([row]) => (row === undefined ? Effect.fail(new Contended()) : Effect.succeed(row))).pipe(
    permits.withPermit(projectId),
    statement
  )
