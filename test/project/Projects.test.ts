/** What an apply writes besides the values of the model. */
import { assert, layer } from "../support/Vitest.ts"
import { PgClient } from "@effect/sql-pg"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { ProjectId } from "../../src/api/schema/Ids.ts"
import { demoText } from "../support/DemoProject.ts"
import { Projects } from "../../src/project/Projects.ts"
import { secretBox } from "../support/SecretBox.ts"
import { TestDatabase } from "../support/TestDatabase.ts"
import { anHourLater, apply, projectRow, rowsOf, services, stateOf } from "./Projects.support.ts"

layer(services)("an apply", (it) => {
  it.effect("creates the demo without events, and changes nothing the second time", function* () {
    const { apply } = yield* Projects
    const projectId = ProjectId.make("demo")
    const all = {
      project: 1,
      members: 2,
      organizations: 2,
      pipelines: 1,
      channels: 1,
      clients: 5,
      deals: 3,
      tickets: 2,
      conversations: 2,
      segments: 1,
      templates: 1,
      campaigns: 2,
      installations: 2,
      tasks: 1
    }
    const zero = Object.fromEntries(Object.keys(all).map((part) => [part, 0]))
    assert.deepStrictEqual(yield* apply(demoText), { projectId, created: all, updated: zero, unchanged: zero })
    const rows = yield* stateOf("demo")
    yield* TestClock.adjust("1 hour")
    assert.deepStrictEqual(yield* apply(demoText), { projectId, created: zero, updated: zero, unchanged: all })
    assert.deepStrictEqual(yield* stateOf("demo"), rows)
    const sql = yield* SqlClient.SqlClient
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
    const layer = Layer.fresh(Projects.layer).pipe(
      Layer.provide(secretBox(Buffer.alloc(32, 1).toString("base64"))),
      Layer.provide(PgClient.layer({ url, maxConnections: 1, startupParameters: { role: "applies" } }))
    )
    const clients = Array.from({ length: 300 }, (_, n) => ({ id: `c${n}`, displayName: "C" }))
    const report = yield* apply("foreign", { clients }).pipe(Effect.provide(layer))
    assert.strictEqual(report.created["clients"], 300)
    yield* sql`DROP OWNED BY applies`
    yield* sql`DROP ROLE applies`
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
