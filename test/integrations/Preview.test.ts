/** The import preview, rule by rule (contract §11). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Profile } from "./Preview.model.support.ts"
import { apply, contact, type Installation, preview, services, usual } from "./Preview.support.ts"

const counts = { contact: 0, organization: 0, lead: 0, deal: 0, task: 0, activity: 0, note: 0 }

layer(services)("a preview", (it) => {
  /** Stages a batch under the usual profile, in a project of its own, and previews it. */
  const previewed = Effect.fnUntraced(function* (
    projectId: string,
    stagedRecords: NonNullable<Installation["stagedRecords"]>,
    parts: Parameters<typeof apply>[2] = {},
    importProfile: Profile = usual
  ) {
    yield* apply(projectId, { importProfile, stagedRecords }, parts)
    return yield* preview(projectId)
  })

  it.effect("counts the records of each type", () =>
    Effect.gen(function* () {
      const fields = {}
      const answer = yield* previewed("types", [
        contact("1"),
        contact("2"),
        { entityType: "organization", externalId: "1", fields },
        { entityType: "note", externalId: "1", fields }
      ])
      assert.deepStrictEqual(answer.counts, { ...counts, contact: 2, organization: 1, note: 1 })
      // An id is the type's own.
      assert.strictEqual(answer.duplicateCount, 0)
      assert.deepStrictEqual(answer.estimatedChanges, { create: 4, update: 0, skip: 0 })
    })
  )

  it.effect("lists each unsupported field once with its reason in code-unit order", () =>
    Effect.gen(function* () {
      const { unsupportedFields } = yield* previewed("reasons", [
        contact("1", { secret: null, mail: "ada@example.org", age: 36, "\u{1f600}": 1, "\uffee": 1, Z: 1 }),
        contact("2", { secret: "s", mail: "ada at example", __proto__x: 1, ["__proto__"]: 1, constructor: 1 }),
        contact("3", { mail: null, name: null, first: null }),
        { entityType: "deal", externalId: "1", fields: { amount: "12", mail: 1, close: "2026-02-30", title: "" } },
        { entityType: "deal", externalId: "2", fields: { amount: 12, currency: "eur" } },
        { entityType: "activity", externalId: "1", fields: { title: "Call" } }
      ])
      assert.deepStrictEqual(
        unsupportedFields.map(({ entityType, externalField, reason }) => [entityType, externalField, reason]),
        [
          ["activity", "title", "not_mapped"],
          ["contact", "Z", "not_mapped"],
          ["contact", "__proto__", "not_mapped"],
          ["contact", "__proto__x", "not_mapped"],
          ["contact", "age", "not_mapped"],
          ["contact", "constructor", "not_mapped"],
          ["contact", "mail", "unsupported_type"],
          // A name can't be cleared.
          ["contact", "name", "unsupported_type"],
          ["contact", "secret", "restricted"],
          ["contact", "\u{1f600}", "not_mapped"],
          ["contact", "\uffee", "not_mapped"],
          ["deal", "amount", "unsupported_type"],
          ["deal", "close", "unsupported_type"],
          ["deal", "currency", "unsupported_type"],
          ["deal", "mail", "not_mapped"],
          ["deal", "title", "unsupported_type"]
        ]
      )
    })
  )

  it.effect("judges each value by itself without coercion", () =>
    Effect.gen(function* () {
      const deal = (externalId: string, fields: object) =>
        ({ entityType: "deal", externalId, fields: { ...fields } }) as const
      const fitting = yield* previewed("alone", [
        deal("1", { amount: 0 }),
        deal("2", { currency: "JPY", close: null, amount: null }),
        deal("3", { title: "x".repeat(160), close: "2024-02-29" })
      ])
      assert.deepStrictEqual(fitting.unsupportedFields, [])
      for (const [index, amount] of ["1", 1.5, -1, 2 ** 53, true, [1], {}].entries()) {
        const { unsupportedFields } = yield* previewed(`coerced ${index}`, [deal("1", { amount })])
        assert.strictEqual(unsupportedFields[0]?.reason, "unsupported_type", JSON.stringify(amount))
      }
    })
  )

  it.effect("marks a record as duplicate when an earlier one equals it, duplicate or not", () =>
    Effect.gen(function* () {
      const answer = yield* previewed("duplicates", [
        contact("1", { mail: "ada@example.org" }),
        // By its id; it is the first with this address, which counts all the same.
        contact("1", { mail: "bo@example.org", tel: "+15550100" }),
        contact("2", { mail: "BO@Example.Org" }),
        contact("3", { tel: "+15550100" }),
        contact("4", { tel: "+15550101", mail: null }),
        // A value that does not fit is no address, and neither is null.
        contact("5", { mail: "no address", tel: null }),
        contact("6", { mail: "no address", tel: null }),
        { entityType: "organization", externalId: "7", fields: { name: "A" } },
        { entityType: "organization", externalId: "7", fields: { name: "B" } },
        { entityType: "organization", externalId: "7", fields: { name: "C" } }
      ])
      assert.strictEqual(answer.duplicateCount, 5)
      assert.deepStrictEqual(answer.estimatedChanges, { create: 5, update: 0, skip: 5 })
    })
  )

  it.effect("finds a contact's client by external id, else by email, else by phone", () =>
    Effect.gen(function* () {
      const clients = [
        { id: "by id", externalId: "1", displayName: "A" },
        { id: "by mail", email: "Ada@example.org", displayName: "B" },
        { id: "by phone", phone: "+15550100", displayName: "C" }
      ]
      const same = (name: string, fields: object) =>
        Effect.map(
          previewed(`ways ${name} ${JSON.stringify(fields)}`, [contact("1", { name, ...fields })], { clients }),
          ({ estimatedChanges: { skip } }) => skip === 1
        )
      assert.isTrue(yield* same("A", {}))
      // The external id wins, so the other clients are not looked at.
      assert.isFalse(yield* same("B", { tel: "+15550100" }))
      const other = (externalId: string, fields: object) =>
        Effect.map(
          previewed(`other ${JSON.stringify(fields)}`, [contact(externalId, { ...fields })], { clients }),
          ({ estimatedChanges }) => estimatedChanges
        )
      const both = { mail: "Ada@example.org", tel: "+15550100" }
      // Its phone differs from that client's, who has none.
      assert.deepStrictEqual(yield* other("2", { name: "B", ...both }), { create: 0, update: 1, skip: 0 })
      assert.deepStrictEqual(yield* other("2", { name: "B", mail: both.mail }), { create: 0, update: 0, skip: 1 })
      assert.deepStrictEqual(yield* other("2", { name: "C", tel: both.tel }), { create: 0, update: 0, skip: 1 })
      assert.deepStrictEqual(yield* other("2", { name: "C", tel: "15550100" }), { create: 1, update: 0, skip: 0 })
    })
  )

  it.effect("takes the oldest of several clients, archived ones included", () =>
    Effect.gen(function* () {
      const at = (createdAt: string) => ({ externalId: "1", createdAt })
      const clients = [
        { id: "b", displayName: "younger", ...at("2026-01-02T00:00:00.000Z") },
        { id: "\u{1f600}", displayName: "by id, later", ...at("2026-01-01T00:00:00.000Z") },
        // Ids compare by byte: in UTF-16 this one would come after the emoji.
        { id: "\uffee", displayName: "oldest", status: "archived", ...at("2026-01-01T00:00:00.000Z") }
      ]
      const { estimatedChanges } = yield* previewed("oldest", [contact("1", { name: "oldest" })], { clients })
      assert.deepStrictEqual(estimatedChanges, { create: 0, update: 0, skip: 1 })
    })
  )

  it.effect("counts an update when a valid mapped value differs", () =>
    Effect.gen(function* () {
      const clients = [
        { id: "a", externalId: "1", displayName: "Ada", email: "Ada@example.org", tags: ["a", "b"], phone: "+15550100" }
      ]
      const cases: ReadonlyArray<readonly [fields: Readonly<Record<string, unknown>>, change: "update" | "skip"]> = [
        [{}, "skip"],
        [{ name: "Ada", mail: "Ada@example.org", tel: "+15550100", first: null }, "skip"],
        [{ name: "Bo" }, "update"],
        [{ mail: "ada@example.org" }, "update"],
        [{ mail: null }, "update"],
        [{ first: "Ada" }, "update"],
        [{ labels: ["b", "a"] }, "skip"],
        [{ labels: ["a"] }, "update"],
        [{ labels: ["a", "b", "c"] }, "update"],
        [{ labels: [] }, "update"],
        [{ labels: ["a", "a"] }, "skip"],
        [{ name: "", tel: "5550100", secret: "Bo", unknown: "Bo" }, "skip"]
      ]
      for (const [fields, change] of cases) {
        const told = JSON.stringify(fields)
        const { estimatedChanges } = yield* previewed(`differs ${told}`, [contact("1", fields)], { clients })
        assert.strictEqual(estimatedChanges[change], 1, told)
      }
    })
  )

  it.effect("uses the first field by name with a valid value when several map to one", () =>
    Effect.gen(function* () {
      const profile = {
        version: 1,
        mappings: { contact: { b: "displayName", a: "displayName", "\u{1f600}": "displayName" } }
      }
      const clients = [{ id: "a", externalId: "1", displayName: "Ada" }]
      const skips = (fields: Readonly<Record<string, unknown>>) =>
        Effect.map(
          previewed(`several ${JSON.stringify(fields)}`, [contact("1", fields)], { clients }, profile),
          ({ estimatedChanges: { skip } }) => skip === 1
        )
      assert.isTrue(yield* skips({ b: "Bo", a: "Ada" }))
      assert.isFalse(yield* skips({ b: "Ada", a: "Bo" }))
      assert.isTrue(yield* skips({ b: "Ada", a: null }))
      assert.isTrue(yield* skips({ "\u{1f600}": "Kit", b: "Ada" }))
    })
  )

  it.effect("ignores other projects and installations", () =>
    Effect.gen(function* () {
      const staged = [contact("1", { mail: "ada@example.org", tel: "+15550100" })]
      const client = { id: "a", displayName: "Ada", externalId: "1", email: "ada@example.org", phone: "+15550100" }
      yield* apply("theirs", { importProfile: usual, stagedRecords: [...staged, ...staged] }, { clients: [client] })
      yield* apply("ours", { id: "neighbour", importProfile: { ...usual, version: 9 }, stagedRecords: staged })
      const answer = yield* previewed("ours", staged)
      assert.deepInclude(answer, { duplicateCount: 0, profileVersion: 1 })
      assert.deepStrictEqual(answer.estimatedChanges, { create: 1, update: 0, skip: 0 })
      const { code } = yield* Effect.flip(preview("ours", "theirs"))
      assert.strictEqual(code, "installation_not_found")
    })
  )

  it.effect("is refused with a reason while the installation is not ready", () =>
    Effect.gen(function* () {
      const refusal = Effect.fnUntraced(function* (projectId: string) {
        const { code, detail } = yield* Effect.flip(preview(projectId))
        assert.strictEqual(code, "installation_not_ready")
        return detail
      })
      const staged = [contact("1")]
      yield* apply("bare", {})
      assert.strictEqual(yield* refusal("bare"), "The installation has no import profile.")
      yield* apply("bare", { stagedRecords: staged })
      assert.strictEqual(yield* refusal("bare"), "The installation has no import profile.")
      yield* apply("bare", { importProfile: usual })
      assert.strictEqual((yield* preview("bare")).counts.contact, 1)
      yield* apply("bare", { status: "disabled" })
      assert.strictEqual(yield* refusal("bare"), "The installation is disabled.")
      yield* apply("bare", { status: "active", stagedRecords: [] })
      assert.strictEqual(yield* refusal("bare"), "The installation has no staged records.")
      yield* apply("bare", { stagedRecords: staged, importProfile: null })
      assert.strictEqual(yield* refusal("bare"), "The installation has no import profile.")
    })
  )

  it.effect("reads the current clients and changes nothing", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const state = Effect.all([
        sql`SELECT * FROM clients WHERE project_id = 'now'`,
        sql`SELECT * FROM staged_contacts WHERE project_id = 'now'`,
        sql`SELECT * FROM staged_batches WHERE project_id = 'now'`
      ])
      const first = yield* previewed("now", [contact("1", { name: "Ada" })])
      assert.deepStrictEqual(first.estimatedChanges, { create: 1, update: 0, skip: 0 })
      yield* apply("now", {}, { clients: [{ id: "a", displayName: "Bo", externalId: "1" }] })
      const before = yield* state
      assert.deepStrictEqual(yield* preview("now"), { ...first, estimatedChanges: { create: 0, update: 1, skip: 0 } })
      assert.deepStrictEqual(yield* state, before)
    })
  )
})
