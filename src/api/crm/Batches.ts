/** The bodies and answers of batches: up to 100 upserts in one request (contract §7). */
import { Schema } from "effect"
import { HttpApiSchema } from "effect/http-api"
import { text } from "../schema/Fields.ts"
import { faultDetail } from "../schema/Faults.ts"
import { Changed, replayed, ResourceId } from "../Endpoints.ts"
import { ServiceUnavailable, ValidationFailed } from "../Problems.ts"
import type { BodyLimits } from "../Requests.ts"

/** A batch has at most 100 items of at most 14 members, and the lists of these have at most 100 entries each. */
export const batchBody: BodyLimits = { bytes: 1024 * 1024, entries: 12_000, members: 2_000 }

/** The number of items for which a batch costs one of the rate limit (contract §4). */
export const itemsPerToken = 10

/** Which record an item creates or changes. */
export const identified = {
  externalId: text(1, 160).annotate({ description: "The id of the record in another system: 1 to 160 characters." })
}

interface Identified {
  readonly externalId: string
}

const maxItems = 100

const differentIds = Schema.makeFilter((items: ReadonlyArray<Identified>) => {
  const seen = new Set<string>()
  return items.slice(0, maxItems).flatMap(({ externalId }, index) => {
    const isRepeated = seen.has(externalId)
    seen.add(externalId)
    return isRepeated ? [{ path: [index, "externalId"], issue: "must be another one than in the items before" }] : []
  })
})

/** Returns the body of a batch. An item has the members of an upsert beside those of `identified`. */
export const batchOf = <Item extends Schema.Constraint & { readonly Type: Identified }>(
  record: "Client" | "Deal",
  item: Item
) =>
  Schema.Struct({
    items: Schema.Array(item)
      .check(differentIds, Schema.isBetweenLength(1, maxItems, { expected: `1 to ${maxItems} items` }))
      .annotate({ description: "The upserts, 1 to 100 with different external ids. Each is one of its own." })
  }).annotate({ identifier: `Developer${record}Batch` })

const Done = Schema.Struct({
  ...identified,
  resourceId: ResourceId,
  created: Schema.Boolean.annotate({ description: "Whether the item created the record." }),
  changed: Changed
}).annotate({ identifier: "DeveloperBatchItemDone" })

/** Returns the answer of a batch. `problems` are those of an upsert, beside the ones that every item can have. */
export const batchResults = <const Problems extends ReadonlyArray<Schema.Constraint>>(
  record: "Client" | "Deal",
  problems: Problems
) =>
  HttpApiSchema.WithHeaders(
    Schema.Struct({
      results: Schema.Array(
        Schema.Union([
          Done,
          Schema.Struct({
            ...identified,
            problem: Schema.Union([ValidationFailed, ServiceUnavailable, ...problems]).annotate({
              description: "Why the item had no effect. The same request with the same key tries it again."
            })
          }).annotate({ identifier: `Developer${record}BatchItemFailed` })
        ])
      ).annotate({ description: "The outcome of each item, in the order of the items." })
    }).annotate({ identifier: `Developer${record}BatchResults` }),
    replayed
  )

/** Returns an example of an answer: the first item has created a record; the second lacks `member`, whose fault is `rule`. */
export const batchExample = (
  resourceId: string,
  externalIds: readonly [string, string],
  member: string,
  rule: string
) => {
  const { code, status, title } = ValidationFailed
  const errors = { [`body/items/1/${member}`]: [rule] }
  const problem = {
    type: `urn:developer-api:problem:${code}`,
    title,
    status,
    detail: faultDetail({ errors, omitted: 0 }),
    instance: "urn:developer-api:request:0b9e6c1a-52d7-4f6e-9a53-7c1d2e8f4a60",
    code,
    errors
  }
  return {
    results: [
      { externalId: externalIds[0], resourceId, created: true, changed: true },
      { externalId: externalIds[1], problem }
    ]
  }
}
