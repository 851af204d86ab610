/** The `idempotency-key` header of every mutation, and the receipt of a mutation (contract §1, §5). */
import { Schema } from "effect"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import { ETag, text } from "./Fields.ts"
import { IdempotencyKeyReused } from "./Problems.ts"

/** The key of client and deal operations. */
const RecordIdempotencyKey = Schema.String.check(
  Schema.isPattern(/^[A-Za-z0-9][A-Za-z0-9._:-]{7,159}$/u, {
    expected: "8 to 160 characters of A-Z a-z 0-9 . _ : -, the first a letter or digit"
  })
)

/** The key of every other operation. */
const IdempotencyKey = Schema.String.check(
  Schema.isPattern(/^[\x21-\x7E]{1,160}$/u, { expected: "1 to 160 printable ASCII characters without spaces" })
)

const description =
  "Names this command. Sent again within 7 days, it answers the first outcome and has no second effect."

/** Headers of a mutation of clients and deals. */
export const RecordMutationHeaders = { "idempotency-key": RecordIdempotencyKey.annotateKey({ description }) }

/** Headers of every other mutation. */
export const MutationHeaders = { "idempotency-key": IdempotencyKey.annotateKey({ description }) }

/** The receipt of a mutation (contract §1). */
export const Receipt = Schema.Struct({
  resourceId: text(1, 160),
  changed: Schema.Boolean
}).annotate({ identifier: "DeveloperMutationResponse" })
export type Receipt = typeof Receipt.Type

/** The header of a replay. */
export const replayed = {
  "idempotent-replayed": Schema.optionalKey(
    Schema.Literal("true").annotate({ description: "Present when this answer repeats that of an earlier request." })
  )
}

/** A receipt with its headers: the record's version, and whether the answer is a replay. */
export const receipt = (status: 200 | 201) =>
  HttpApiSchema.WithHeaders(Receipt.pipe(HttpApiSchema.status(status)), { etag: ETag, ...replayed })

/** The problems that every mutation shares. */
export const mutationProblems = [IdempotencyKeyReused] as const
