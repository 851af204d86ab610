/** Project files in sequence, their exports, what an apply writes besides, and import profiles with their staged records. */
import { assert, layer } from "../support/Vitest.ts"
import { PgClient } from "@effect/sql-pg"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { ProjectId } from "../../src/api/schema/Ids.ts"
import { assertMatches } from "../support/Matches.ts"
import { demoText } from "../support/Projects.ts"
import { applyProject } from "../../src/project/Projects.ts"
import { subscribe } from "../support/Events.ts"
import { TestDatabase } from "../support/TestDatabase.ts"
import {
  anHourLater,
  apply,
  configOf,
  exported,
  faultsOf,
  type File,
  projectRow,
  rowsOf,
  services,
  stagedOf,
  textOf
} from "./Projects.support.ts"

const demo: File = JSON.parse(demoText)
const http = { url: "https://chat.example/", signingSecret: "whsec_c2VjcmV0" }

/** The demo with what it lacks. */
const whole = {
  ...demo,
  project: { defaultPipelineId: "pipe_sales", contactCapacity: 1_000 },
  loyaltyLevels: [{ id: "gold", name: "Gold" }],
  stampOffers: [{ id: "cake", name: "Cake" }],
  channels: [
    ...(demo.channels ?? []),
    { id: "http", providerType: "http" as const, displayName: "Chat", config: http },
    { id: "bot", providerType: "telegram" as const, displayName: "Bot", config: { token: "1:a" } }
  ],
  clients: (demo.clients ?? []).map((client) => ({
    ...client,
    loyalty: { cardNumber: client.id, levelId: "gold", balance: 5, readyStampOfferIds: ["cake"] }
  })),
  tickets: [
    ...(demo.tickets ?? []),
    {
      id: "rated",
      subject: "Rated",
      status: "closed" as const,
      rating: { score: 5, comment: "Good", by: "customer" as const }
    }
  ]
}

/** Sorts lists of texts and of records, whose order an export determines itself, and leaves out the configs of channels. */
const sorted = (value: unknown): unknown =>
  JSON.parse(JSON.stringify(value), (member, of: unknown) =>
    member === "config"
      ? undefined
      : Array.isArray(of)
        ? of.toSorted((one: unknown, other: unknown) => (JSON.stringify(one) < JSON.stringify(other) ? -1 : 1))
        : of
  )

const shownOf = (projectId: string) =>
  Effect.map(exported(ProjectId.make(projectId)), ({ text }): File => JSON.parse(text))

layer(services)("a project file", (it) => {
  it.effect(
    "is stored, changes nothing the second time, and is exported so that it makes the same project",
    function* () {
      const id = "whole"
      const { created } = yield* apply(id, whole)
      for (const [part, records] of Object.entries(whole)) {
        if (Array.isArray(records)) assert.strictEqual(created[part], records.length, part)
      }
      const rows = yield* rowsOf("clients", id)
      assert.deepStrictEqual((yield* apply(id, whole)).unchanged, created)
      assert.deepStrictEqual(yield* rowsOf("clients", id), rows)
      assert.deepStrictEqual(yield* configOf(id, "bot"), { token: "1:a", apiBaseUrl: "https://api.telegram.org" })

      const { records, text } = yield* exported(ProjectId.make(id))
      const staged = yield* stagedOf(id)
      assert.deepStrictEqual((yield* applyProject(text)).unchanged, records)
      assert.deepStrictEqual(yield* stagedOf(id), staged)
      const file: File = JSON.parse(text)
      for (const [part, given] of Object.entries(sorted({ ...whole, project: undefined }) ?? {})) {
        assertMatches(Reflect.get(Object(sorted(file)), part), given)
      }
      const copy = { ...file, project: { ...file.project, id: "copy" } }
      const missing = (file.channels ?? []).flatMap(({ providerType }, index) =>
        providerType === "sandbox" ? [] : [`channels/${index}/config: is required for a new channel`]
      )
      assert.deepStrictEqual(yield* faultsOf(JSON.stringify(copy)), missing)
      const made = yield* applyProject(JSON.stringify({ ...copy, channels: whole.channels }))
      assert.deepStrictEqual(made.created, records)
      assert.deepStrictEqual({ ...(yield* shownOf("copy")), project: file.project }, file)
    }
  )

  it.effect("keeps what the next one leaves out, and changes what that gives", function* () {
    const id = "next"
    yield* apply(id, whole)
    const before = yield* shownOf(id)
    const next: Omit<File, "project"> = {
      members: [{ id: "mem_tom", name: "Thomas" }],
      organizations: [{ id: "org_harbour", name: "Harbour" }],
      channels: [{ id: "http", providerType: "http", displayName: "Other" }],
      clients: [{ id: "cli_mara", displayName: "Mara" }],
      deals: [{ id: "deal_espresso", title: "Machines" }],
      tickets: [{ id: "rated", subject: "Rated well", status: "closed" }],
      segments: [{ id: "seg_tasting", name: "Tasting", clientIds: ["cli_ines", "cli_peter"] }],
      templates: [{ id: "tpl_tasting", version: 1, name: "Invitation", body: "Come" }],
      campaigns: [{ id: "cmp_tasting", name: "Tasting" }],
      installations: [{ id: "ins_shop", name: "Shop" }],
      tasks: [{ id: "task_call", title: "Call" }]
    }
    const { created, updated } = yield* apply(id, next)
    const after = yield* shownOf(id)
    for (const [part, changes] of Object.entries(next)) {
      const change = changes[0] ?? assert.fail(part)
      assert.deepStrictEqual([created[part], updated[part]], [0, 1], part)
      const records = (file: File): ReadonlyArray<{ readonly id: string }> => Reflect.get(file, part)
      assert.deepStrictEqual(
        sorted(records(after)),
        sorted(records(before).map((record) => (record.id === change.id ? { ...record, ...change } : record))),
        part
      )
    }
    assert.deepStrictEqual(yield* configOf(id, "http"), http)
  })

  it.effect("places its deals by their status and their pipeline, and moves stages between pipelines", function* () {
    const id = "placed"
    const pipeline = (id: string, ...stages: ReadonlyArray<string>) => ({
      id,
      name: id,
      stages: stages.map((id) => ({ id, name: id }))
    })
    yield* apply(id, { pipelines: [pipeline("sales", "new", "offer"), pipeline("service", "intake", "spare")] })
    for (const [given, stage_id, lost_reason, isClosed] of [
      [{ pipelineId: "sales", stageId: "offer", status: "lost", lostReason: "Late" }, "offer", "Late", true],
      [{}, "offer", "Late", true],
      [{ status: "won" }, "offer", null, true],
      [{ status: "open" }, "offer", null, false],
      [{ pipelineId: "service" }, "intake", null, false]
    ] as const) {
      yield* apply(id, { deals: [{ id: "d", title: "D", ...given }] })
      const [row] = yield* rowsOf("deals", id)
      assert.deepInclude(row, { stage_id, lost_reason })
      assert.strictEqual(row?.["closed_at"] !== null, isClosed)
    }
    const closed = [{ id: "d", title: "D", closedAt: "2026-01-01T00:00:00Z" }]
    assert.deepStrictEqual(yield* faultsOf(textOf(id, { deals: closed })), [
      "deals/0/closedAt: must be null while the deal is open"
    ])
    const sales = pipeline("sales", "new", "offer", "spare")
    assert.deepStrictEqual(yield* faultsOf(textOf(id, { pipelines: [sales] })), [
      "pipelines/0/stages/2/id: belongs to the pipeline service, which the file doesn't replace"
    ])
    const moved = yield* apply(id, { pipelines: [sales, pipeline("service", "intake")] })
    assert.strictEqual(moved.updated["pipelines"], 2)
  })
})

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

  it.effect("replaces the rate limits of a project as a whole, and keeps them if it has none", function* () {
    const sql = yield* SqlClient.SqlClient
    const [read, write] = [{ read: { limit: 5_000, windowSeconds: 60 } }, { write: { limit: 900, windowSeconds: 60 } }]
    const applied = function* (rateLimits?: object) {
      yield* applyProject(JSON.stringify({ project: { id: "limits", name: "Limits", rateLimits } }))
      const [row] = yield* sql`SELECT rate_limits AS limits FROM projects WHERE project_id = 'limits'`
      return row
    }
    assert.deepStrictEqual(yield* applied(read), { limits: read })
    assert.deepStrictEqual(yield* applied(write), { limits: write })
    assert.deepStrictEqual(yield* applied(), { limits: write })
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
