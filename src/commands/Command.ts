/**
 * Idempotent mutations (contract §5). One statement stores the key, the outcome and the changes: all of them or none. So a retry
 * either finds the outcome, or is the first run. `mutate` runs one command in a statement, `makeGrouped` many.
 */
import type { Statement } from "effect/sql"
import { hash as oneShotHash } from "node:crypto"
import type { ProjectId } from "../api/schema/Ids.ts"
import { type Fiber, Predicate } from "effect"
import { PreconditionFailed } from "../api/Problems.ts"
import { CurrentRequest } from "../platform/CurrentRequest.ts"
import { redactSecrets } from "../platform/Text.ts"
import { currentSpan } from "../telemetry/Telemetry.ts"

export interface Command {
  readonly projectId: ProjectId
  readonly key: string
  readonly fingerprint: Uint8Array
  readonly operation: string
  /** The versions of the record that the command may change (`If-Match`); undefined: every version. */
  readonly ifMatch?: ReadonlyArray<number> | undefined
  /** Whether the command may only create its record (`If-None-Match: *` of an upsert). */
  readonly isCreateOnly?: boolean
}

export const command = (
  projectId: ProjectId,
  request: {
    readonly endpoint: { readonly identifier: string }
    readonly headers: {
      readonly "idempotency-key": string
      readonly "if-match"?: string
      readonly "if-none-match"?: string
    }
    readonly params?: object
    readonly query?: object
    readonly payload?: object
  }
): Command => ({
  projectId,
  key: request.headers["idempotency-key"],
  operation: request.endpoint.identifier,
  // The fingerprint does not contain the conditions, so a repetition gets the stored outcome also with another condition.
  ifMatch: request.headers["if-match"] === undefined ? undefined : versionsOf(request.headers["if-match"]),
  isCreateOnly: request.headers["if-none-match"] !== undefined,
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

/** What a failed guard reports. A guard is a condition of the command, such as the expected version. */
export interface Refusal {
  /**
   * The `version` that the statement returns for the command. If a version guard failed, it is the current version of the
   * record.
   */
  readonly version: number | null
  /** What the problem is about, such as the references that are missing. */
  readonly faults: ReadonlyArray<string>
}

/** For each `failure` of a statement, the function that makes the problem. */
export type Problems<Problem> = Readonly<Record<string, (refusal: Refusal) => Problem>>

/** Makes the problems whose details are the same for each command. */
export const plain = <All extends ReadonlyArray<unknown>>(
  ...classes: { readonly [I in keyof All]: { readonly code: string; new (): All[I] } }
): Problems<All[number]> => Object.fromEntries(classes.map((Class) => [Class.code, () => new Class()]))

/** A mutation of one command for `mutate`, in the dialect of `Kind.ts`. */
export interface Mutation<Problem> {
  readonly at: Date
  readonly decided: Statement.Fragment
  readonly effect: Statement.Fragment
  /** An expression over the common table expressions, for a value that only the first run returns. */
  readonly returning?: Statement.Fragment
  readonly problems: Problems<Problem>
}

/** Returns JSON in its one canonical form (RFC 8785): members sorted by UTF-16 code units, ECMAScript numbers, no spaces. */
export const canonicalJson = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map((item) => canonicalJson(item)).join(",")}]`
  if (!Predicate.isObject(value)) return JSON.stringify(value) ?? "null"
  let members = ""
  for (const name of Object.keys(value).toSorted()) {
    const member = value[name]
    if (member === undefined) continue
    members += `${members === "" ? "" : ","}${JSON.stringify(name)}:${canonicalJson(member)}`
  }
  return `{${members}}`
}

/** Stands for every version in a list of versions: `If-Match: *`. No record has this version. */
export const anyVersion = 0

/** Returns the versions of a list of entity tags. A weak tag, or one that is no version, matches no record, so it is left out. */
export const versionsOf = (tags: string): ReadonlyArray<number> =>
  tags === "*"
    ? [anyVersion]
    : Array.from(tags.matchAll(/(W\/)?"([^"]*)"/g)).flatMap(([, weak, tag = ""]) =>
        weak === undefined && /^[1-9][0-9]*$/.test(tag) && Number.isSafeInteger(Number(tag)) ? [Number(tag)] : []
      )

/** The column of `command` with the versions of `If-Match`; NULL without the header. */
export const ifMatchColumn = { ifMatch: "bigint[]" }

/**
 * Returns an SQL condition: whether `If-Match` names `version`, the current version of the record, which is NULL if there is no
 * record. It is NULL without the header.
 */
export const matches = (version: string) =>
  `("ifMatch" && ARRAY[${version}::bigint, ${anyVersion} * ${version}::bigint])`

/** Makes the problem of a refusal whose `version` is the current version of the record. */
export const preconditionFailed = {
  precondition_failed: ({ version }: { readonly version: number | null }) => PreconditionFailed.at(version)
}

/** The ids of the request, of its trace and of its key, and the operation. An operator's command has no request. */
export type Origin = readonly [
  requestId: string | null,
  traceId: string | null,
  keyId: string | null,
  operation: string
]

/** The column of `command` with the origin, and its parts in the order of the columns of `idempotency_keys`. */
export const originColumn = { origin: "text[]" }
export const originParts = "origin[1], origin[2], origin[3], origin[4]"

export const originOf = (fiber: Fiber.Fiber<unknown, unknown>, operation: string): Origin => {
  const { caller, id } = fiber.getRef(CurrentRequest)
  if (id === "") return [null, null, null, operation]
  return [redactSecrets(id), currentSpan(fiber.context)?.traceId ?? null, caller?.keyId ?? null, operation]
}
