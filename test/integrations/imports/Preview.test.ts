/** The import preview, rule by rule (contract §11). */
import { assert, it, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { PgClient } from "@effect/sql-pg"
import { Preview } from "../../../src/integrations/imports/Preview.ts"
import { migrate } from "../../../src/platform/database/Migrations.ts"
import { makeDatabase } from "../../support/TestDatabase.ts"
import type { Profile } from "./Preview.model.support.ts"
import { apply, contact, type Installation, preview, projects, services, usual } from "./Preview.support.ts"

const counts = { contact: 0, organization: 0, lead: 0, deal: 0, task: 0, activity: 0, note: 0 }

layer(services)("a preview", (it) => {
  /** Stages a batch under the usual profile, in a separate project, and previews it. */
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
      // External ids are unique per type.
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

  it.effect("takes the first of several external fields of one field, by name in code units", () =>
    Effect.gen(function* () {
      const profile = {
        version: 1,
        mappings: { contact: { b: "displayName", aa: "displayName", Z: "displayName" } }
      } as const
      const staged = [
        contact("1", { b: "third", aa: "second" }),
        contact("2", { b: "third", aa: "second", Z: "first" })
      ]
      const clients = [
        { id: "one", displayName: "second", externalId: "1" },
        { id: "two", displayName: "first", externalId: "2" }
      ]
      const { estimatedChanges } = yield* previewed("names", staged, { clients }, profile)
      assert.deepStrictEqual(estimatedChanges, { create: 0, update: 0, skip: 2 })
    })
  )

  it.effect("takes the oldest of several clients, archived ones included", () =>
    Effect.gen(function* () {
      const at = (createdAt: string) => ({ externalId: "1", createdAt })
      const clients = [
        { id: "b", displayName: "younger", ...at("2026-01-02T00:00:00.000Z") },
        { id: "\u{1f600}", displayName: "by id, later", ...at("2026-01-01T00:00:00.000Z") },
        // Ids compare by bytes: by UTF-16 units this one would come after the emoji.
        { id: "\uffee", displayName: "oldest", status: "archived", ...at("2026-01-01T00:00:00.000Z") }
      ]
      const { estimatedChanges } = yield* previewed("oldest", [contact("1", { name: "oldest" })], { clients })
      assert.deepStrictEqual(estimatedChanges, { create: 0, update: 0, skip: 1 })
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

// In Turkish, the lowercase of I has no dot.
it.effect("a preview finds emails in any letter case in a database of any locale", () =>
  Effect.gen(function* () {
    const client = PgClient.layer({ url: yield* makeDatabase({ empty: true, language: "tr" }), maxConnections: 1 })
    const services = Layer.mergeAll(projects, Preview.layer).pipe(Layer.provideMerge(client))
    const answer = yield* Effect.gen(function* () {
      yield* migrate
      const stagedRecords = [contact("1", { mail: "ines@example.org" }), contact("2", { mail: "INES@EXAMPLE.ORG" })]
      yield* apply("p", { importProfile: usual, stagedRecords }, { clients: [{ id: "a", email: "INES@example.org" }] })
      return yield* preview("p")
    }).pipe(Effect.provide(services))
    assert.strictEqual(answer.duplicateCount, 1)
    assert.deepStrictEqual(answer.estimatedChanges, { create: 0, update: 1, skip: 1 })
  })
)
