/**
 * Idempotent mutations (contract §5): key, effect and outcome in one statement, so that after a crash at any point
 * either all of it is there or none, and a retry finds the outcome instead of having a second effect.
 */
import { Effect } from "effect"
import type { Statement } from "effect/sql"
import { createHash } from "node:crypto"
import type { ProjectId } from "../../api/Ids.ts"
import { IdempotencyKeyReused, type ServiceUnavailable } from "../../api/Problems.ts"
import { canonicalJson } from "../CanonicalJson.ts"
import { Contended, statement } from "../Database.ts"
import type { MutationClient } from "./Mutations.ts"

/** One request to change something: whose, under which key, and what it says. */
export interface Command {
  readonly projectId: ProjectId
  readonly key: string
  /** SHA-256 over the operation and everything that its request says. */
  readonly fingerprint: Uint8Array
}

/** Reads the command out of a decoded request. */
export const command = (
  projectId: ProjectId,
  operation: string,
  request: {
    readonly headers: { readonly "idempotency-key": string }
    readonly params?: object
    readonly query?: object
    readonly payload?: object
  }
): Command => ({
  projectId,
  key: request.headers["idempotency-key"],
  fingerprint: createHash("sha256")
    .update(canonicalJson([operation, request.params ?? {}, request.query ?? {}, request.payload ?? {}]))
    .digest()
})

/** What a command did, or what its first run did. */
export interface Outcome<Returned = null> {
  readonly resourceId: string
  readonly changed: boolean
  /** The record's version after the command; null where the resource has none. */
  readonly version: number | null
  readonly replayed: boolean
  /** What the first run tells beyond that, and nobody keeps; null in a replay. */
  readonly returned: Returned | null
}

/** What a guard saw when it failed. */
export interface Refusal {
  /** The verdict's: of a version guard, the record's version as it is; null where there is none. */
  readonly version: number | null
  /** What the request got wrong: the words after the code. */
  readonly faults: ReadonlyArray<string>
}

/** A change as SQL, in two lists of common table expressions around the claim of the key. */
export interface Mutation<Problem> {
  /** When it happens. */
  readonly at: Date
  /**
   * Locks what the change rests on, and ends in `verdict (failure text, resource_id text, changed boolean, version int)`
   * of one row; `failure` is the code of a problem, then, space-separated, what is at fault. It finds the project, locked
   * against project files being applied (which may take seconds, hence NOWAIT), in
   * `project (project_id, contact_capacity, default_pipeline_id, time_zone)`. Every mutation locks in this order: project,
   * records, key; so they never wait for each other in a circle.
   */
  readonly verdict: Statement.Fragment
  /** Applies the change from `claim (changed boolean)`, which is empty when there is a failure or the key is taken. */
  readonly effect: Statement.Fragment
  /** A column for what the first run alone tells: an expression over what stands before. */
  readonly returning?: Statement.Fragment
  /** The problem behind each code of a `failure`. */
  readonly problems: Readonly<Record<string, (refusal: Refusal) => Problem>>
}

interface Attempt<Returned> {
  readonly failure: string | null
  readonly resourceId: string
  readonly changed: boolean
  readonly version: number | null
  readonly claimed: boolean
  readonly returned: Returned
}

interface Stored {
  readonly fingerprint: Uint8Array
  readonly resourceId: string
  readonly changed: boolean
  readonly version: number | null
}

/**
 * Runs a mutation once per key: one round trip when it applies, two when only a second look can tell why it did not
 * (a replay, a reused key, or a failed guard).
 */
export const mutate = Effect.fnUntraced(function* <Problem, Returned = null>(
  { permits, sql }: MutationClient,
  command: Command,
  mutation: Mutation<Problem>
): Effect.fn.Return<Outcome<Returned>, Problem | IdempotencyKeyReused | ServiceUnavailable> {
  const { fingerprint, key, projectId } = command
  const permitted = permits.withPermit(projectId)

  // A project file locks the project FOR UPDATE before it changes it: only that makes KEY SHARE, which waits for no
  // plain update, see the row as the file left it. What else the statement reads is older when it began before the file
  // was through: then the revisions differ, and it looks again. The advisory lock lets a waiting file go first.
  const attempt = sql<Attempt<Returned>>`
    WITH seen AS MATERIALIZED (SELECT revision FROM projects WHERE project_id = ${projectId}),
    project AS MATERIALIZED (
      SELECT project_id, contact_capacity, default_pipeline_id, time_zone, revision FROM projects
      WHERE project_id = ${projectId} AND pg_try_advisory_xact_lock_shared(hashtextextended(project_id, 0))
      FOR KEY SHARE NOWAIT
    ),
    fresh AS (SELECT FROM project JOIN seen USING (revision)),
    ${mutation.verdict},
    claim AS (
      INSERT INTO idempotency_keys (project_id, key, fingerprint, resource_id, changed, version, created_at)
      SELECT ${projectId}::text, ${key}::text, ${fingerprint}::bytea, resource_id, changed, version,
             ${mutation.at}::timestamptz
      FROM verdict WHERE failure IS NULL AND EXISTS (SELECT FROM fresh)
      ON CONFLICT (project_id, key) DO NOTHING
      RETURNING changed
    ),
    ${mutation.effect}
    SELECT failure, resource_id AS "resourceId", changed, version, EXISTS (SELECT FROM claim) AS claimed,
           ${mutation.returning ?? sql.literal("NULL")} AS returned
    FROM verdict WHERE EXISTS (SELECT FROM fresh)`.pipe(
    Effect.flatMap(([verdict]) => (verdict === undefined ? Effect.fail(new Contended()) : Effect.succeed(verdict)))
  )

  const stored = sql<Stored>`
    SELECT fingerprint, resource_id AS "resourceId", changed, version
    FROM idempotency_keys WHERE project_id = ${projectId} AND key = ${key}`

  while (true) {
    const verdict = yield* statement(permitted(attempt))
    if (verdict.claimed) return { ...outcome(verdict), replayed: false, returned: verdict.returned }

    // A failed guard says little as long as the key may be known: the command that it repeats has moved the guard.
    const [first] = yield* statement(stored)
    if (first !== undefined) {
      if (Buffer.compare(first.fingerprint, fingerprint) === 0)
        return { ...outcome(first), replayed: true, returned: null }
      return yield* new IdempotencyKeyReused({
        detail: "Send a new idempotency-key with a new request; keep a key for repeats of the same one."
      })
    }
    if (verdict.failure !== null) {
      const [code = "", ...faults] = verdict.failure.split(" ")
      const problem = mutation.problems[code]
      return yield* problem === undefined
        ? Effect.die(new Error(`A mutation failed for an unknown reason: ${code}`))
        : Effect.fail(problem({ version: verdict.version, faults }))
    }
    // The key was taken at the first look and pruned before the second: the next look will find it free.
  }
})

const outcome = ({ changed, resourceId, version }: Pick<Stored, "changed" | "resourceId" | "version">) => ({
  resourceId,
  changed,
  version
})
