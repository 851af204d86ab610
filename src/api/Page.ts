/** Keyset pages, with a cursor and `Link: <…>; rel="next"` while there is a next page. */
import { Effect, Schema } from "effect"
import { HttpApiSchema } from "effect/http-api"
import { text } from "./schema/Fields.ts"

/**
 * The parameter `limit`: the maximum number of items on a page, in decimal digits only. The OpenAPI document declares an
 * integer.
 */
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

export const page = <Item extends Schema.Top>(item: Item) =>
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
