/**
 * Idempotent mutations (contract §5): key, effect and outcome in one statement, so that after a crash at any point
 * either all of it is there or none, and a retry finds the outcome instead of having a second effect.
 */
import { Effect } from "effect"
import type { Statement } from "effect/sql"
import { createHash } from "node:crypto"
import type { ProjectId } from "../../api/Ids.ts"
import type { IdempotencyKeyReused, ServiceUnavailable } from "../../api/Problems.ts"
import { canonicalJson } from "../CanonicalJson.ts"
import { Contended, statement } from "../Database.ts"
import { type Attempt, attempt } from "./Attempt.ts"
import type { MutationClient } from "./Mutations.ts"
import { repeated, settled } from "./Outcomes.ts"

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
  request: {
    readonly endpoint: { readonly identifier: string }
    readonly headers: { readonly "idempotency-key": string }
    readonly params?: object
    readonly query?: object
    readonly payload?: object
  }
): Command => ({
  projectId,
  key: request.headers["idempotency-key"],
  fingerprint: createHash("sha256")
    .update(
      canonicalJson([request.endpoint.identifier, request.params ?? {}, request.query ?? {}, request.payload ?? {}])
    )
    .digest()
})

/** What a command did, or what its first run did. */
export interface Outcome<Returned = null> {
  readonly resourceId: string
  readonly changed: boolean
  /** The record's version after the command; null where the resource has none. */
  readonly version: number | null
  readonly replayed: boolean
  /** What the first run returns beyond that, and nothing stores; null in a replay. */
  readonly returned: Returned | null
}

/** What a guard saw when it failed. */
export interface Refusal {
  /** The verdict's: of a version guard, the record's version as it is; null where there is none. */
  readonly version: number | null
  /** What the request got wrong: the words after the code. */
  readonly faults: ReadonlyArray<string>
}

/** The problem behind each code of a `failure`. */
export type Problems<Problem> = Readonly<Record<string, (refusal: Refusal) => Problem>>

/**
 * A mutation that runs one command at a time, as SQL in two lists of common table expressions around the claim of the key.
 * `Grouped.ts` has those that run many.
 */
export interface Mutation<Problem> {
  /** When it happens. */
  readonly at: Date
  /**
   * Locks what the change rests on, and ends in `verdict (failure text, resource_id text, changed boolean, version int)`
   * of one row; `failure` is the code of a problem, then, space-separated, what is at fault. It finds the project in
   * `project (project_id, contact_capacity, default_pipeline_id, time_zone)`.
   */
  readonly verdict: Statement.Fragment
  /** Applies the change from `claim (changed boolean)`, which is empty when there is a failure or the key is taken. */
  readonly effect: Statement.Fragment
  /** A column for what the first run alone returns: an expression over what stands before. */
  readonly returning?: Statement.Fragment
  readonly problems: Problems<Problem>
}

/**
 * Runs a mutation once per key: one round trip when it applies, two when only a second look can tell why it did not
 * (a replay, a reused key, or a failed guard).
 */
export const mutate = <Problem, Returned = null>(
  client: MutationClient,
  command: Command,
  { at, effect, problems, returning, verdict }: Mutation<Problem>
): Effect.Effect<Outcome<Returned>, Problem | IdempotencyKeyReused | ServiceUnavailable> => {
  const { permits, sql } = client
  const { fingerprint, key, projectId } = command
  const text = attempt<Returned>(sql, {
    asked: sql`
      SELECT 1 AS ord, ${projectId}::text COLLATE "C" AS project_id, ${key}::text COLLATE "C" AS key,
        ${fingerprint}::bytea AS fingerprint, ${at}::timestamptz AS at`,
    isOne: true,
    decided: sql`
      project AS (SELECT * FROM command),
      ${verdict},
      decided AS MATERIALIZED (
        SELECT command.*, verdict.failure, verdict.resource_id, verdict.changed, verdict.version FROM command, verdict
      )`,
    claim: sql`ord, changed`,
    effect,
    returning
  })
  const one = Effect.flatMap(text, ([row]) => (row === undefined ? Effect.fail(new Contended()) : Effect.succeed(row)))
  const run: Effect.Effect<Attempt<Returned>, ServiceUnavailable> = statement(permits.withPermit(projectId)(one))
  return repeated(client, command, settled(client, command, problems, run))
}
