/** Arbitrary batches, profiles and clients, with few ids, addresses and field names, so that most records match others. */
import * as fc from "fast-check"
import { type Client, ownFields, type Profile, type StagedRecord, type Type, types } from "./Preview.model.support.ts"

/** External names: own members of JavaScript's objects, and some whose order differs between UTF-8 and UTF-16. */
const name = fc.constantFrom("name", "mail", "mail2", "tel", "tags", "__proto__", "constructor", "\u{1f600}", "\uffee")

const emails = ["ada@example.org", "Ada@Example.ORG", "bo@example.org", "KIT@example.org"]
const phones = ["+4915112345678", "+442071838750", "+15550100"]
/** Other texts of these emails and phones, and one that no country can be told of. */
const otherForms = [
  "+49 (0) 151 123 456-78",
  "004915112345678",
  "+44 20/7183.8750 ",
  "0151 12345678",
  " bo@example.org\u00a0"
]
const names = ["Ada", "Bo", "ada", "\u{1f600}\u00e4"]
const tags = [[], ["a"], ["a", "b"], ["b", "a"], ["A"]]

/** Values of all kinds; some are valid for one field, some for several, some for none. */
const value: fc.Arbitrary<unknown> = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom<unknown>(null, ...emails, ...phones, ...otherForms, ...names, ...tags) },
  fc.constantFrom<unknown>(
    "",
    "not an address",
    "ada@example",
    "0049151",
    "x".repeat(100),
    "x".repeat(101),
    "\u{1f600}".repeat(160),
    "\u{1f600}".repeat(161),
    "x".repeat(10_000),
    "x".repeat(10_001),
    "EUR",
    "eur",
    "2026-02-28",
    "2026-02-30",
    "2026-11-20T10:00:00Z",
    "2026-11-20T10:00:00.5+02:00",
    "tomorrow"
  ),
  fc.constantFrom<unknown>(0, 1, -1, 0.5, 2 ** 53 - 1, 2 ** 53, 1e21, -1e-7, true, false),
  fc.constantFrom<unknown>(
    ["a", "a"],
    ["a", 1],
    ["x".repeat(161)],
    [null],
    {},
    { b: [1, { "\u{1f600}": null }], a: "" }
  )
)

const externalId = fc.constantFrom("1", "2", "3", "4", "5", "6", "7", "8", "9", "\u{1f600}", "\uffee")

/** Typical contacts, so that many match a client. */
const plausible = fc.record(
  {
    name: fc.constantFrom(...names),
    mail: fc.constantFrom(null, ...emails, ...otherForms),
    tel: fc.constantFrom(null, ...phones, ...otherForms),
    tags: fc.constantFrom(...tags)
  },
  { requiredKeys: [] }
)
const fields = fc.array(fc.tuple(name, value), { maxLength: 6 }).map((fields) => Object.fromEntries(fields))

const record: fc.Arbitrary<StagedRecord> = fc.oneof(
  { weight: 2, arbitrary: fc.record({ entityType: fc.constant("contact" as const), externalId, fields: plausible }) },
  fc.record({ entityType: fc.constant("contact" as const), externalId, fields }),
  fc.record({ entityType: fc.constantFrom(...types), externalId, fields })
)

export const records = fc.array(record, { minLength: 1, maxLength: 25, size: "max" })

const usual = { name: "displayName", mail: "email", tel: "phone", tags: "tags" }

/** Maps some or all names to any own field of a type. */
const mapping = (type: Type) =>
  fc
    .array(fc.tuple(name, fc.constantFrom("restricted", ...Object.keys(ownFields[type]))), { maxLength: 9 })
    .map((mappings) => Object.fromEntries(mappings))

const mappings = (contact: fc.Arbitrary<Readonly<Record<string, string>>>) =>
  fc.record(
    {
      contact,
      organization: mapping("organization"),
      lead: mapping("lead"),
      deal: mapping("deal"),
      task: mapping("task"),
      activity: mapping("activity"),
      note: mapping("note")
    },
    { requiredKeys: [] }
  )

export const profile: fc.Arbitrary<Profile> = fc.record({
  version: fc.integer({ min: 1, max: 3 }),
  mappings: fc.oneof(
    mappings(mapping("contact")),
    mappings(mapping("contact").map((more) => ({ ...usual, ...more }))),
    mappings(fc.constant(usual))
  )
})

const anyClients = fc.uniqueArray(
  fc.record({
    // By UTF-16 units the last one would come before the emoji.
    id: fc.constantFrom("a", "B", "c", "d", "e", "~", "9"),
    displayName: fc.constantFrom(...names),
    firstName: fc.constantFrom(null, ...names),
    lastName: fc.constantFrom(null, ...names),
    email: fc.constantFrom(null, ...emails),
    phone: fc.constantFrom(null, ...phones),
    tags: fc.constantFrom(...tags),
    externalId: fc.oneof(fc.constant(null), externalId),
    status: fc.constantFrom("active" as const, "archived" as const),
    createdAt: fc.constantFrom("2026-01-01T00:00:00.000Z", "2026-01-02T00:00:00.000Z")
  }),
  { selector: ({ id }) => id, minLength: 2, maxLength: 7 }
)

/** Clients with different external ids: of several with one, the first keeps it. */
export const clients: fc.Arbitrary<ReadonlyArray<Client>> = anyClients.map((all) =>
  all.map((client, index) =>
    all.slice(0, index).some(({ externalId }) => externalId === client.externalId)
      ? { ...client, externalId: null }
      : client
  )
)
