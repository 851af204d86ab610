/**
 * Idempotent mutations (contract §5): key, effect and outcome are one statement, so that after a crash at any point
 * either all of it is stored or none, and a retry finds the outcome instead of having a second effect. `Mutate.ts` runs one
 * command at a time, `Grouped.ts` many.
 */
import type { Statement } from "effect/sql"
import { hash as oneShotHash } from "node:crypto"
import type { ProjectId } from "../../api/schema/Ids.ts"
import { canonicalJson } from "../CanonicalJson.ts"

/** A mutating request: its project, key and fingerprint. */
export interface Command {
  readonly projectId: ProjectId
  readonly key: string
  /** SHA-256 over the operation, path parameters, query and body. */
  readonly fingerprint: Uint8Array
}

/** Returns the command of a decoded request. */
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
  fingerprint: oneShotHash(
    "sha256",
    canonicalJson([request.endpoint.identifier, request.params ?? {}, request.query ?? {}, request.payload ?? {}]),
    "buffer"
  )
})

/** The outcome of a command; for a replay, the outcome of the first run. */
export interface Outcome<Returned = null> {
  readonly resourceId: string
  readonly changed: boolean
  /** The record's version after the command; null where the resource has none. */
  readonly version: number | null
  readonly replayed: boolean
  /** A value that only the first run returns and that is not stored; null in a replay. */
  readonly returned: Returned | null
}

/** The data of a failed guard. */
export interface Refusal {
  /** The version in the verdict: for a version guard the record's current version; null where there is none. */
  readonly version: number | null
  /** The faults of the request: the words after the code. */
  readonly faults: ReadonlyArray<string>
}

/** The problem of each code of a `failure`. */
export type Problems<Problem> = Readonly<Record<string, (refusal: Refusal) => Problem>>

/**
 * A mutation that runs one command at a time, as SQL in two lists of common table expressions around the claim of the
 * key.
 */
export interface Mutation<Problem> {
  /** The time of the change. */
  readonly at: Date
  /**
   * Locks the records, checks the guards, and ends in one row of `verdict (failure text, resource_id text, changed
   * boolean, version int)`; `failure` is the code of a problem, then the faults, separated by spaces. The project is in
   * `project (project_id, contact_capacity, default_pipeline_id, time_zone)`.
   */
  readonly verdict: Statement.Fragment
  /** Applies the change from `claim (changed boolean)`, which is empty when a guard failed or the key is taken. */
  readonly effect: Statement.Fragment
  /** The value that only the first run returns: an expression over the common table expressions. */
  readonly returning?: Statement.Fragment
  readonly problems: Problems<Problem>
}
