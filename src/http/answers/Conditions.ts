/** Evaluates the conditions of requests on the version of a record (RFC 9110, section 13; contract §1). */
import { Effect } from "effect"
import { HttpServerResponse } from "effect/http"
import { PreconditionFailed } from "../../api/Problems.ts"
import { etag } from "../../api/schema/Fields.ts"
import { anyVersion, versionsOf } from "../../commands/Preconditions.ts"

export interface ReadConditions {
  readonly "if-match"?: string
  readonly "if-none-match"?: string
}

/** Returns the answer to a read of a record, 304, or the problem `precondition_failed`. `If-Match` comes first. */
export const conditionally = <Answer>(
  { "if-match": match, "if-none-match": noneMatch }: ReadConditions,
  version: number,
  answer: () => Answer
): Effect.Effect<Answer | HttpServerResponse.HttpServerResponse, PreconditionFailed> => {
  if (match !== undefined && !includes(versionsOf(match), version)) {
    return Effect.fail(PreconditionFailed.at(version))
  }
  return Effect.succeed(
    // The comparison for `If-None-Match` is weak (section 13.1.2).
    noneMatch !== undefined && includes(versionsOf(noneMatch.replaceAll('W/"', '"')), version)
      ? HttpServerResponse.empty({ status: 304, headers: { etag: etag(version) } })
      : answer()
  )
}

const includes = (versions: ReadonlyArray<number>, version: number) =>
  versions.includes(version) || versions.includes(anyVersion)
