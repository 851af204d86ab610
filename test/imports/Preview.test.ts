/** What the import preview counts, and what it reads (contract §11). */
import { assert, it, layer } from "../support/Vitest.ts"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { PgClient } from "@effect/sql-pg"
import { createHash } from "node:crypto"
import { InstallationId, ProjectId } from "../../src/api/schema/Ids.ts"
import { Preview } from "../../src/imports/Preview.ts"
import { migrate } from "../../src/sql/migrations/Migrations.ts"
import { makeDatabase, TestDatabase } from "../support/TestDatabase.ts"
import { applyProject } from "../../src/project/Projects.ts"
import { secretBox } from "../support/SecretBox.ts"
import type { Parts } from "../support/TestServer.ts"

/** A key for applying files, which have no secrets. */
const key = secretBox(Buffer.alloc(32, 1).toString("base64"))

const services = Layer.mergeAll(key, Preview.layer).pipe(Layer.provideMerge(TestDatabase.layer))

/** An installation of a file; the default id is `ins`. */
type Installation = Partial<NonNullable<Parts["installations"]>[number]>
type Profile = NonNullable<Installation["importProfile"]>
type StagedRecord = NonNullable<Installation["stagedRecords"]>[number]
type Client = NonNullable<Parts["clients"]>[number]

/** Applies a file with an installation and optional clients. */
const apply = Effect.fnUntraced(function* (
  projectId: string,
  installation: Installation,
  parts: { readonly clients?: ReadonlyArray<Partial<Client> & { readonly id: string }> } = {}
) {
  const clients = parts.clients?.map((client) => ({ displayName: "Someone", ...client }))
  const installations = [{ id: "ins", name: "Shop", ...installation }]
  return yield* applyProject(JSON.stringify({ project: { id: projectId, name: "Acme" }, clients, installations }))
})

const preview = Effect.fnUntraced(function* (projectId: string, installationId = "ins") {
  const { preview } = yield* Preview
  return yield* preview(ProjectId.make(projectId), InstallationId.make(installationId))
})

/** A typical profile, which maps external names to own fields. */
const usual = {
  version: 1,
  mappings: {
    contact: {
      name: "displayName",
      first: "firstName",
      mail: "email",
      tel: "phone",
      labels: "tags",
      secret: "restricted"
    },
    organization: { name: "name" },
    deal: { title: "title", amount: "amountMinor", currency: "currency", close: "expectedCloseDate" }
  }
} as const satisfies Profile

const contact = (externalId: string, fields: StagedRecord["fields"] = {}): StagedRecord => ({
  entityType: "contact",
  externalId,
  fields
})

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

  it.effect("counts what it cannot read by its reason, and what repeats an earlier record", function* () {
    const client = { id: "a", displayName: "Ada", email: "ada@example.org", tags: ["b", "a"] }
    const { counts, duplicateCount, estimatedChanges, unsupportedFields } = yield* previewed(
      "reasons",
      [
        contact("1", { name: "Ada", mail: " ada@example.org ", labels: ["a", "b"] }),
        contact("2", { mail: "ADA@example.org" }),
        contact("3", { tel: "+15550100", age: 1, secret: "x" }),
        contact("4", { tel: "+1 (555) 01-00", age: 2, first: "x".repeat(101), mail: null }),
        {
          entityType: "deal",
          externalId: "1",
          fields: { title: "", amount: 0.5, currency: "EUR", close: "2026-02-30" }
        },
        { entityType: "deal", externalId: "1", fields: {} },
        { entityType: "note", externalId: "1", fields: { text: "Hello" } }
      ],
      {
        clients: [
          { id: "z", email: "ada@example.org", createdAt: "2026-01-02T00:00:00Z" },
          { ...client, createdAt: "2026-01-01T00:00:00Z" }
        ]
      }
    )
    assert.deepInclude(counts, { contact: 4, deal: 2, note: 1, lead: 0 })
    assert.strictEqual(duplicateCount, 3)
    // The first contact has what the oldest client of its email has.
    assert.deepStrictEqual(estimatedChanges, { create: 3, update: 0, skip: 4 })
    assert.deepStrictEqual(
      unsupportedFields.map((field) => `${field.entityType} ${field.externalField} ${field.reason} ${field.count}`),
      [
        "contact age not_mapped 2",
        "contact first unsupported_type 1",
        "contact secret restricted 1",
        "deal amount unsupported_type 1",
        "deal close unsupported_type 1",
        "deal title unsupported_type 1",
        "note text not_mapped 1"
      ]
    )
  })

  it.effect("takes the first of several external fields of one field, by name in code units", function* () {
    const profile = {
      version: 1,
      mappings: { contact: { b: "displayName", aa: "displayName", Z: "displayName" } }
    } as const
    const staged = [contact("1", { b: "third", aa: "second" }), contact("2", { b: "third", aa: "second", Z: "first" })]
    const clients = [
      { id: "one", displayName: "second", externalId: "1" },
      { id: "two", displayName: "first", externalId: "2" }
    ]
    const { estimatedChanges } = yield* previewed("names", staged, { clients }, profile)
    assert.deepStrictEqual(estimatedChanges, { create: 0, update: 0, skip: 2 })
  })

  it.effect("matches a client by any way of writing its phone or its email", function* () {
    const clients = [
      { id: "a", phone: "+48123456789" },
      { id: "b", email: "ada@example.org" }
    ]
    const phones = ["+48 123 456 789", "0048123456789", "+48123456789 ", "+48 (0) 123-456-789", "+48.123/456\u00a0789"]
    for (const [n, fields] of [...phones.map((tel) => ({ tel })), { mail: " Ada@Example.org " }].entries()) {
      const projectId = `written-${n}`
      yield* apply(projectId, { importProfile: usual, stagedRecords: [contact("new", fields)] }, { clients })
      const { estimatedChanges, unsupportedFields } = yield* preview(projectId)
      assert.strictEqual(estimatedChanges.create, 0, JSON.stringify(fields))
      assert.deepStrictEqual(unsupportedFields, [])
    }
  })

  it.effect("looks for a contact by email and phone only if no client has its external id", function* () {
    const sql = yield* SqlClient.SqlClient
    const staged = ["1", "2", "3"].map((id) => contact(id, { mail: `${id}@example.org`, tel: `+4915100000${id}` }))
    const clients = ["1", "2"].map((id) => ({ id, externalId: id, email: `${id}@example.org` }))
    yield* apply("indexes", { importProfile: usual, stagedRecords: staged }, { clients })
    const scans = sql.withTransaction(
      Effect.andThen(
        preview("indexes"),
        sql<{ readonly name: string; readonly scans: number }>`
          SELECT indexrelname AS name, pg_stat_get_xact_numscans(indexrelid)::int AS scans FROM pg_stat_user_indexes
          WHERE relname = 'clients' AND pg_stat_get_xact_numscans(indexrelid) > 0 ORDER BY indexrelname`
      )
    )
    assert.deepStrictEqual(yield* scans, [
      { name: "clients_by_email_and_age", scans: 1 },
      { name: "clients_by_phone_and_age", scans: 1 },
      { name: "clients_external_id", scans: 3 }
    ])
  })

  it.effect("is refused for more contacts than one statement compares in its time, with their bound", function* () {
    const sql = yield* SqlClient.SqlClient
    yield* apply("many", { importProfile: usual, stagedRecords: [contact("1", {})] })
    const staged = (contacts: number) =>
      Effect.orDie(sql`
        UPDATE staged_batches SET counts = jsonb_set(counts::jsonb, '{contact}', to_jsonb(${contacts}::int))::json
        WHERE project_id = 'many'`)
    yield* staged(500_000)
    assert.deepInclude((yield* preview("many")).counts, { contact: 500_000 })
    yield* staged(500_001)
    const refusal = yield* Effect.flip(
      Effect.flatMap(Preview, (service) => service.preview(ProjectId.make("many"), InstallationId.make("ins")))
    )
    assert.deepInclude(refusal, {
      code: "installation_not_ready",
      detail: "The installation has 500001 staged contacts. At most 500000 are previewed: stage them in parts."
    })
  })

  it.effect("has as fingerprint the SHA-256 of the documented text", function* () {
    const text =
      '{"installationId":"ins","profileVersion":7,"records":[' +
      '{"entityType":"contact","externalId":"1","fields":{"a":[1,{"x":null,"y":"\u00e4"}],"b":1e+21}},' +
      '{"entityType":"contact","externalId":"1\u{1f600}","fields":{"\\n":true,"\u{1f600}":0,"\uffee":-0.5}},' +
      '{"entityType":"contact","externalId":"1\uffee","fields":{}},' +
      '{"entityType":"note","externalId":"1","fields":{}},' +
      '{"entityType":"note","externalId":"1","fields":{}}]}'
    const note = { entityType: "note", externalId: "1", fields: {} } as const
    const batch = [
      note,
      contact("1\uffee"),
      contact("1\u{1f600}", { "\uffee": -0.5, "\u{1f600}": -0, "\n": true }),
      note,
      contact("1", { b: 1e21, a: [1, { y: "\u00e4", x: null }] })
    ]
    const { fingerprint } = yield* previewed("text", batch, {}, { ...usual, version: 7 })
    assert.strictEqual(fingerprint, createHash("sha256").update(text).digest("hex"))
  })

  it.effect("ignores other projects and installations", function* () {
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

  it.effect("reads the current clients and changes nothing", function* () {
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
})

// In Turkish, the lowercase of I has no dot.
it.effect("a preview finds emails in any letter case in a database of any locale", function* () {
  const client = PgClient.layer({ url: yield* makeDatabase({ empty: true, language: "tr" }), maxConnections: 1 })
  const services = Layer.mergeAll(key, Preview.layer).pipe(Layer.provideMerge(client))
  const answer = yield* Effect.gen(function* () {
    yield* migrate
    const stagedRecords = [contact("1", { mail: "ines@example.org" }), contact("2", { mail: "INES@EXAMPLE.ORG" })]
    yield* apply("p", { importProfile: usual, stagedRecords }, { clients: [{ id: "a", email: "INES@example.org" }] })
    return yield* preview("p")
  }).pipe(Effect.provide(services))
  assert.strictEqual(answer.duplicateCount, 1)
  assert.deepStrictEqual(answer.estimatedChanges, { create: 0, update: 1, skip: 1 })
})
