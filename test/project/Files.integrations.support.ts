/** The installations of a generated project file, with what they have staged. */
import * as fc from "fast-check"
import { byId, id, maybe, record, text } from "./Arbitraries.support.ts"

const name = fc.oneof(text(100), fc.constantFrom("a", "b", "__proto__"))
const entityType = fc.constantFrom("contact", "organization", "lead", "deal", "task", "activity", "note")

const fields = fc.array(fc.tuple(name, fc.jsonValue({ maxDepth: 3 })), { maxLength: 4 }).map((pairs) =>
  // Text that the database can't store is refused, and tested apart.
  Object.fromEntries(pairs.filter(([, value]) => !/\\\\u(0000|d[89a-f])/i.test(JSON.stringify(value))))
)

const mapping = <Field extends string>(...ownFields: ReadonlyArray<Field>) =>
  fc
    .array(fc.tuple(name, fc.constantFrom<Field | "restricted">("restricted", ...ownFields)), { maxLength: 3 })
    .map((pairs) => Object.fromEntries(pairs))

const importProfile = fc.record({
  version: fc.integer({ min: 1, max: 2 }),
  mappings: record({ contact: mapping("displayName", "email", "tags"), note: mapping("body") }, [])
})

export const installations = fc.uniqueArray(
  record(
    {
      id,
      name: text(160),
      status: fc.constantFrom("active" as const, "disabled" as const),
      importProfile: maybe(importProfile),
      stagedRecords: fc.array(fc.record({ entityType, externalId: id, fields }), { maxLength: 4 })
    },
    ["id", "name"]
  ),
  { ...byId, maxLength: 3 }
)
