/** Conditional requests: the headers `If-Match` and `If-None-Match` (RFC 9110, section 13; contract §1). */
import { Schema } from "effect"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"

const tag = '(?:W/)?"[\\x21\\x23-\\x7E\\x80-\\xFF]*"'

const tags = Schema.String.check(
  Schema.isPattern(new RegExp(`^(?:\\*|[ \\t,]*${tag}(?:[ \\t]*,(?:[ \\t]*${tag})?)*[ \\t]*)$`, "u"), {
    expected: 'one or more entity tags such as "7", separated by commas, or *'
  })
)

/** The header of a request that reads or changes a record. */
export const IfMatch = {
  "if-match": Schema.optionalKey(
    tags.annotateKey({
      description:
        'Only if the record has one of these versions: the `etag` of an earlier answer, such as `"7"`, several separated by commas, or `*` for any ' +
        "version. Otherwise the answer is `precondition_failed`, and nothing is changed."
    })
  )
}

/** The headers of a request that reads a record. */
export const ReadConditions = {
  ...IfMatch,
  "if-none-match": Schema.optionalKey(
    tags.annotateKey({
      description:
        "Only if the record has none of these versions, in the form of `if-match`. Otherwise the answer is 304 without a body."
    })
  )
}

/** The headers of an upsert. */
export const UpsertConditions = {
  ...IfMatch,
  "if-none-match": Schema.optionalKey(
    Schema.Literal("*").annotateKey({
      description:
        "`*`: only if no record has the external id, so that the upsert can only create. Otherwise the answer is `precondition_failed`."
    })
  )
}

/** The answer 304: the record has a version that `if-none-match` names. */
export class NotModified extends Schema.TaggedError<NotModified>()("NotModified", {}) {
  override get message() {
    return "The record has a version that if-none-match names"
  }
}

export const notModified = NotModified.pipe(
  HttpApiSchema.asNoContent({ decode: () => new NotModified() }),
  HttpApiSchema.status(304)
)
