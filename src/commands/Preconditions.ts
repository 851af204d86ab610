/** The header `If-Match` as a guard of a mutation (contract §1), in the statement that changes the record. */
import { PreconditionFailed } from "../api/Problems.ts"

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
