/**
 * What operations have alike: the pages of lists, the `idempotency-key` of every mutation, with the receipt that mutations answer
 * (contract §1, §5), and the conditions `If-Match` and `If-None-Match` of reads and mutations (RFC 9110, section 13).
 */
import { Effect, Schema } from "effect"
import { HttpApiSchema } from "effect/http-api"
import { ETag, text } from "./schema/Fields.ts"
import { CursorInvalid, IdempotencyKeyReused, PreconditionFailed } from "./Problems.ts"

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

const receipt = (status: 200 | 201) =>
  HttpApiSchema.WithHeaders(Receipt.pipe(HttpApiSchema.status(status)), { etag: ETag, ...replayed })

/** The receipts of an upsert: 201 if it has created the record, otherwise 200. */
export const upsertReceipt = [receipt(201), receipt(200)] as const

export const mutationProblems = [IdempotencyKeyReused] as const

/** The headers, answer and problems of an operation that creates a record with a version. */
export const creationBy = <Headers extends object, const Problems extends ReadonlyArray<Schema.Top>>(
  headers: Headers,
  ...problems: Problems
) => ({ headers, success: receipt(201), error: [...mutationProblems, ...problems] as const })

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

/** The headers, answer and problems of an operation that changes a record with a version. */
export const changeBy = <Headers extends object, const Problems extends ReadonlyArray<Schema.Top>>(
  headers: Headers,
  ...problems: Problems
) => ({
  headers: { ...headers, ...IfMatch },
  success: receipt(200),
  error: [...mutationProblems, PreconditionFailed, ...problems] as const
})

/** The headers of a request that reads a record. */
const ReadConditions = {
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

const notModified = NotModified.pipe(
  HttpApiSchema.asNoContent({ decode: () => new NotModified() }),
  HttpApiSchema.status(304)
)

/** The headers, answer and problems of an operation that reads a record with a version. */
export const recordOf = <Item extends Schema.Top, const Problems extends ReadonlyArray<Schema.Top>>(
  item: Item,
  ...problems: Problems
) => ({
  headers: ReadConditions,
  success: HttpApiSchema.WithHeaders(item, { etag: ETag }),
  error: [notModified, PreconditionFailed, ...problems] as const
})

/** The maximum number of items on a page, in decimal digits only. The OpenAPI document declares an integer. */
const Limit = Schema.String.check(
  Schema.makeFilter((text: string) => /^(?:[1-9][0-9]?|100)$/.test(text), {
    expected: "an integer from 1 to 100",
    toJsonSchema: () => ({ type: "integer", minimum: 1, maximum: 100, default: 50 })
  })
).pipe(Schema.decodeTo(Schema.FiniteFromString), Schema.withDecodingDefaultKey(Effect.succeed("50")))

export const pageQuery = (maxCursor: number) => ({
  limit: Limit,
  cursor: Schema.optionalKey(
    text(1, maxCursor).annotate({
      description: `The \`nextCursor\` of the page before, for the same filters: 1 to ${maxCursor} characters; absent for the first page.`
    })
  )
})

const page = <Item extends Schema.Top>(item: Item) =>
  HttpApiSchema.WithHeaders(
    Schema.Struct({
      items: Schema.Array(item).annotate({ description: "The records of this page, at most `limit`." }),
      nextCursor: Schema.NullOr(Schema.String).annotate({
        description: "The `cursor` of the next page, an opaque string; null on the last page."
      })
    }),
    {
      link: Schema.optionalKey(
        Schema.String.annotate({
          description: 'The address of the next page (RFC 8288), `<…>; rel="next"`; absent on the last page.'
        })
      )
    }
  )

/** The query, answer and problems of an operation that lists records. */
export const listOf = <
  Item extends Schema.Top,
  Query extends Schema.Struct.Fields,
  const Problems extends ReadonlyArray<Schema.Top>
>(
  item: Item,
  query: Query,
  ...problems: Problems
) => ({ query, success: page(item), error: [CursorInvalid, ...problems] as const })

/** A parameter that filters by one of several values, with its default. */
export const filterBy = <const Value extends string>(values: ReadonlyArray<Value>, usual: NoInfer<Value>) =>
  Schema.Literals(values)
    .annotate({ default: usual })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed(usual)))
