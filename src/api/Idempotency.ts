/** The `idempotency-key` header of every mutation, and the receipt that mutations answer (contract §1, §5). */
import { Schema } from "effect"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import { ETag, text } from "./schema/Fields.ts"
import { IdempotencyKeyReused } from "./Problems.ts"

const meaning =
  "Names this command. For 7 days, the same request with the same key gets the outcome of the first one and has no second effect. Use another key for another command."

/** `form` says in words what `pattern` accepts. The reference shows these words at each mutation. */
const key = (pattern: RegExp, form: string) =>
  Schema.String.check(Schema.isPattern(pattern, { expected: form })).annotateKey({
    description: `${meaning} ${form.charAt(0).toUpperCase()}${form.slice(1)}.`
  })

/** Headers of a mutation of clients and deals. */
export const RecordMutationHeaders = {
  "idempotency-key": key(
    /^[A-Za-z0-9][A-Za-z0-9._:-]{7,159}$/u,
    "8 to 160 characters of A-Z a-z 0-9 . _ : -, the first a letter or digit"
  )
}

/** Headers of every other mutation. */
export const MutationHeaders = {
  "idempotency-key": key(/^[\x21-\x7E]{1,160}$/u, "1 to 160 printable ASCII characters without spaces")
}

export const ResourceId = text(1, 160).annotate({
  description: "The id of the record that the command created or changed: 1 to 160 characters."
})

export const Changed = Schema.Boolean.annotate({
  description: "Whether the command changed the record; false if the record was already as requested."
})

export const Receipt = Schema.Struct({
  resourceId: ResourceId,
  changed: Changed
}).annotate({ identifier: "DeveloperMutationResponse" })
export type Receipt = typeof Receipt.Type

export const replayed = {
  "idempotent-replayed": Schema.optionalKey(
    Schema.Literal("true").annotate({
      description: "Present when this answer repeats the answer to an earlier request with the same `idempotency-key`."
    })
  )
}

export const receipt = (status: 200 | 201) =>
  HttpApiSchema.WithHeaders(Receipt.pipe(HttpApiSchema.status(status)), { etag: ETag, ...replayed })

/** The receipts of an upsert: 201 if it has created the record, otherwise 200. */
export const upsertReceipt = [receipt(201), receipt(200)] as const

export const mutationProblems = [IdempotencyKeyReused] as const
