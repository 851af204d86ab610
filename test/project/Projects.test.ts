/** What an apply writes besides the values of the model, and the import profiles and staged records of project files. */
import { assert, layer } from "../support/Vitest.ts"
import { PgClient } from "@effect/sql-pg"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { demoText } from "../support/Projects.ts"
import { applyProject } from "../../src/project/Projects.ts"
import { subscribe } from "../support/Events.ts"
import { TestDatabase } from "../support/TestDatabase.ts"
import { anHourLater, apply, projectRow, rowsOf, services, stagedOf } from "./Projects.support.ts"

layer(services)("an apply", (it) => {
  it.effect("appends no event", function* () {
    assert.deepInclude((yield* applyProject(demoText)).created, { clients: 5, deals: 3, tasks: 1 })
    const sql = yield* SqlClient.SqlClient
    yield* subscribe(sql, "demo", "shop")
    const changed = demoText.replaceAll('"title": "', '"title": "Changed ')
    assert.deepInclude((yield* applyProject(changed)).updated, { deals: 3 })
    assert.deepStrictEqual(yield* sql`SELECT FROM events`, [])
  })

  it.effect("analyzes the tables that it has filled, and no others", function* () {
    const sql = yield* SqlClient.SqlClient
    const clients = Array.from({ length: 200 }, (_, n) => ({ id: `c${n}`, displayName: "C" }))
    yield* apply("analyzed", { clients, members: [{ id: "m", name: "M" }] })
    const analyzed = yield* sql`
      SELECT relname AS table FROM pg_class WHERE reltuples > 0 AND relkind = 'r' AND relnamespace = 'public'::regnamespace`
    assert.includeDeepMembers([...analyzed], [{ table: "clients" }])
    assert.notIncludeDeepMembers([...analyzed], [{ table: "members" }])
  })

  it.effect("succeeds as a role that may not analyze the tables", function* () {
    const { url } = yield* TestDatabase
    const sql = yield* SqlClient.SqlClient
    yield* sql`CREATE ROLE applies`
    yield* sql`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO applies`
    const layer = PgClient.layer({ url, maxConnections: 1, startupParameters: { role: "applies" } })
    const clients = Array.from({ length: 300 }, (_, n) => ({ id: `c${n}`, displayName: "C" }))
    const report = yield* apply("foreign", { clients }).pipe(Effect.provide(layer))
    assert.strictEqual(report.created["clients"], 300)
    yield* sql`DROP OWNED BY applies`
    yield* sql`DROP ROLE applies`
  })

  it.effect("gives a project without a default pipeline its only one, which it keeps", function* () {
    const sql = yield* SqlClient.SqlClient
    const pipeline = (id: string) => ({ id, name: id, stages: [{ id: `${id}-new`, name: "New" }] })
    const file = (...ids: ReadonlyArray<string>) =>
      JSON.stringify({
        project: { id: "only", name: "Only" },
        pipelines: ids.map(pipeline),
        deals: [{ id: "d", title: "D", ...(ids.length > 1 ? { pipelineId: "a" } : {}) }]
      })
    const applied = function* (...ids: ReadonlyArray<string>) {
      yield* applyProject(file(...ids))
      const [row] = yield* sql`SELECT default_pipeline_id AS id FROM projects WHERE project_id = 'only'`
      return row
    }
    assert.deepStrictEqual(yield* applied("a", "b"), { id: null })
    yield* sql`DELETE FROM stages WHERE project_id = 'only' AND pipeline_id = 'b'`
    yield* sql`DELETE FROM pipelines WHERE project_id = 'only' AND id = 'b'`
    assert.deepStrictEqual(yield* applied("a"), { id: "a" })
    assert.deepStrictEqual(yield* applied("a", "b"), { id: "a" })
  })

  it.effect("corrects a wrong count of active clients", function* () {
    const clients = [{ id: "a", displayName: "A" }]
    yield* apply("capacity", { project: { contactCapacity: 1 }, clients })
    const sql = yield* SqlClient.SqlClient
    yield* sql`UPDATE projects SET active_clients = 9 WHERE project_id = 'capacity'`
    assert.deepStrictEqual((yield* apply("capacity")).unchanged, { project: 1 })
    assert.strictEqual((yield* projectRow("capacity"))?.["active_clients"], 1)
  })

  it.effect("keeps the members of a campaign that no file has", function* () {
    const id = "campaigns"
    const sql = yield* SqlClient.SqlClient
    yield* apply(id, { campaigns: [{ id: "c", name: "C" }] })
    const [draft] = yield* rowsOf("campaigns", id)
    assert.deepInclude(draft, { status: "draft", audience_id: null, primary_template_id: null })
    yield* apply(id, { templates: [{ id: "t", version: 1, name: "T", body: "Hello" }] })
    yield* sql`
      UPDATE campaigns SET version = 5, primary_template_id = 't', primary_template_version = 1
      WHERE project_id = ${id}`
    const [before] = yield* rowsOf("campaigns", id)
    const later = yield* anHourLater
    assert.strictEqual((yield* apply(id, { campaigns: [{ id: "c", name: "D" }] })).updated["campaigns"], 1)
    const [renamed] = yield* rowsOf("campaigns", id)
    assert.deepStrictEqual(renamed, { ...before, name: "D", version: 6, updated_at: later })
  })
})

const profile = { version: 1, mappings: { contact: { name: "displayName", mail: "email" } } } as const
const ada = { entityType: "contact", externalId: "1", fields: { name: "Ada", mail: "Ada@example.org" } } as const
interface Parts {
  readonly importProfile?: typeof profile | { readonly version: number; readonly mappings: object } | null
  readonly stagedRecords?: ReadonlyArray<object>
}

layer(services)("a project file's imports", (it) => {
  const stage = Effect.fnUntraced(function* (projectId: string, parts: Parts) {
    const installations = [{ id: "ins", name: "Shop", ...parts }]
    const { created, unchanged, updated } = yield* apply(projectId, JSON.parse(JSON.stringify({ installations })))
    const counts = { created, updated, unchanged }
    return Object.entries(counts).find(([, count]) => count["installations"] === 1)?.[0]
  })
  const recordsOf = Effect.fnUntraced(function* (projectId: string) {
    const sql = yield* SqlClient.SqlClient
    return yield* sql`
      SELECT entity_type AS "entityType", external_id AS "externalId", fields FROM staged_records
      WHERE project_id = ${projectId} ORDER BY position`
  })

  it.effect("are judged again when the profile changes, and not at all without it", function* () {
    yield* stage("profile", { importProfile: profile, stagedRecords: [ada] })
    const [batch, records, contacts] = yield* stagedOf("profile")
    assert.deepInclude(contacts?.[0], {
      email: "ada@example.org",
      mapped: { displayName: "Ada", email: "Ada@example.org" }
    })

    const mappings = { contact: { name: "restricted", mail: "firstName" } }
    assert.strictEqual(yield* stage("profile", { importProfile: { version: 1, mappings } }), "updated")
    const [changed, sameRecords, others] = yield* stagedOf("profile")
    assert.deepStrictEqual(sameRecords, records)
    assert.deepInclude(others?.[0], { email: null, mapped: { firstName: "Ada@example.org" } })
    assert.deepInclude(changed?.[0], { fingerprint: batch?.[0]?.["fingerprint"] })
    // The order of its members has no meaning, either.
    const turned = { contact: { mail: "firstName", name: "restricted" } }
    assert.strictEqual(yield* stage("profile", { importProfile: { version: 1, mappings: turned } }), "unchanged")
    assert.strictEqual(yield* stage("profile", { importProfile: { version: 2, mappings } }), "updated")

    assert.strictEqual(yield* stage("profile", { importProfile: null }), "updated")
    const [withdrawn, kept, none] = yield* stagedOf("profile")
    assert.deepStrictEqual([kept, none], [records, []])
    assert.deepInclude(withdrawn?.[0], { rules: null, counts: null, fingerprint: null })
    assert.strictEqual(yield* stage("profile", { importProfile: null }), "unchanged")
  })

  it.effect("take any JSON for a value, and any name of 1 to 100 characters", function* () {
    const fields = JSON.parse(
      `{"__proto__": {"__proto__": 1}, "constructor": [], "${"\u{1f600}".repeat(100)}": "\\u0001\\u2028\\\\", "n": 12345678901234567890, "z": -0}`
    )
    yield* stage("any", { importProfile: profile, stagedRecords: [{ ...ada, fields }] })
    const [record] = yield* recordsOf("any")
    assert.deepStrictEqual(JSON.stringify(record?.["fields"]), JSON.stringify(fields))
  })
})
