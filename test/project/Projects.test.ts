/** The values that an applied project file writes, keeps and refuses. */
import { assert, layer } from "@effect/vitest"
import { PgClient } from "@effect/sql-pg"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { ProjectId } from "../../src/api/Ids.ts"
import { demoText } from "../support/DemoProject.ts"
import { Projects } from "../../src/project/Projects.ts"
import { secretBox } from "../support/SecretBox.ts"
import { TestDatabase } from "../support/TestDatabase.ts"
import { anHourLater, apply, faultsOf, projectRow, rowsOf, services, stateOf, textOf } from "./Projects.support.ts"

layer(services)("an apply", (it) => {
  it.effect("creates the demo without events, and changes nothing the second time", () =>
    Effect.gen(function* () {
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
        campaigns: 1,
        installations: 1,
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
  )

  it.effect("analyzes the tables that it has filled, and no others", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clients = Array.from({ length: 200 }, (_, n) => ({ id: `c${n}`, displayName: "C" }))
      yield* apply("analyzed", { clients, members: [{ id: "m", name: "M" }] })
      const analyzed = yield* sql`
        SELECT relname AS table FROM pg_class WHERE reltuples > 0 AND relkind = 'r' AND relnamespace = 'public'::regnamespace`
      assert.includeDeepMembers([...analyzed], [{ table: "clients" }])
      assert.notIncludeDeepMembers([...analyzed], [{ table: "members" }])
    })
  )

  it.effect("succeeds as a role that may not analyze the tables", () =>
    Effect.gen(function* () {
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
  )

  it.effect("gives new records defaults", () =>
    Effect.gen(function* () {
      const start = yield* anHourLater
      const report = yield* apply("defaults", {
        members: [{ id: "m", name: "M" }],
        organizations: [{ id: "o", name: "O" }],
        clients: [{ id: "c", displayName: "C" }]
      })
      assert.deepStrictEqual(report.created, { project: 1, members: 1, organizations: 1, clients: 1 })
      assert.deepStrictEqual(yield* projectRow("defaults"), {
        project_id: "defaults",
        name: "Acme",
        time_zone: "UTC",
        contact_capacity: null,
        active_clients: 0,
        modules: ["crm", "messaging", "campaigns", "integrations", "tickets"],
        entitlements: ["developer_api"],
        rate_limits: {},
        default_pipeline_id: null,
        deleted_at: null,
        created_at: start
      })
      assert.deepStrictEqual(yield* rowsOf("members", "defaults"), [
        { project_id: "defaults", id: "m", name: "M", email: null, active: true }
      ])
      assert.deepStrictEqual(yield* rowsOf("organizations", "defaults"), [
        { project_id: "defaults", id: "o", name: "O", archived: false }
      ])
      assert.deepStrictEqual(yield* rowsOf("clients", "defaults"), [
        {
          project_id: "defaults",
          id: "c",
          display_name: "C",
          first_name: null,
          last_name: null,
          email: null,
          phone: null,
          organization_id: null,
          responsible_member_id: null,
          tags: [],
          external_id: null,
          status: "active",
          version: 1,
          created_at: start,
          updated_at: start,
          archived_at: null,
          loyalty_card_number: null,
          loyalty_level_id: null,
          loyalty_balance: 0,
          ready_stamp_offer_ids: [],
          marketing_consent: false,
          suppressed: false,
          merged_into_client_id: null
        }
      ])
    })
  )

  it.effect("keeps omitted members, clears members set to null, and replaces lists as a whole", () =>
    Effect.gen(function* () {
      const full = {
        id: "c",
        displayName: "C",
        firstName: "F",
        lastName: "L",
        email: "c@example.com",
        phone: "+4915112345678",
        tags: ["a", "b"],
        externalId: "x-1",
        organizationId: "o",
        responsibleMemberId: "m",
        createdAt: "2020-01-01T01:00:00+01:00"
      } as const
      yield* apply("keep", {
        project: {
          timeZone: "Europe/Berlin",
          contactCapacity: 7,
          modules: ["crm"],
          entitlements: ["developer_api", "beta"],
          rateLimits: { read: { limit: 5, windowSeconds: 60 }, write: { limit: 1, windowSeconds: 2 } }
        },
        members: [{ id: "m", name: "M", email: "m@example.com", active: false }],
        organizations: [{ id: "o", name: "O", archived: true }],
        clients: [full]
      })
      const before = [yield* projectRow("keep"), yield* rowsOf("clients", "keep")]
      const silent = {
        members: [{ id: "m", name: "M" }],
        organizations: [{ id: "o", name: "O" }],
        clients: [{ id: "c", displayName: "C" }]
      }
      const report = yield* apply("keep", silent)
      assert.deepStrictEqual(report.unchanged, { project: 1, members: 1, organizations: 1, clients: 1 })
      assert.deepStrictEqual([yield* projectRow("keep"), yield* rowsOf("clients", "keep")], before)

      const later = yield* anHourLater
      const change = yield* apply("keep", {
        project: { contactCapacity: null, rateLimits: { messages: { limit: 9, windowSeconds: 1 } } },
        clients: [{ id: "c", displayName: "C", firstName: null, organizationId: null, tags: ["b"] }]
      })
      assert.deepStrictEqual(change.updated, { project: 1, clients: 1 })
      const row = yield* projectRow("keep")
      assert.strictEqual(row?.["contact_capacity"], null)
      assert.strictEqual(row?.["active_clients"], 0)
      assert.deepStrictEqual(row?.["rate_limits"], { messages: { limit: 9, windowSeconds: 1 } })
      const [client] = yield* rowsOf("clients", "keep")
      assert.deepInclude(client, {
        first_name: null,
        last_name: "L",
        organization_id: null,
        responsible_member_id: "m",
        tags: ["b"],
        version: 2,
        created_at: new Date("2020-01-01T00:00:00.000Z"),
        updated_at: later
      })
    })
  )

  it.effect("archives and restores clients, and changes no client that the file does not name", () =>
    Effect.gen(function* () {
      const id = "archive"
      const client = (status?: "active" | "archived", displayName = "A") =>
        apply(id, { clients: [{ id: "a", displayName, ...(status && { status }) }] })
      const start = yield* anHourLater
      yield* apply(id, { clients: [{ id: "b", displayName: "B", status: "archived" }] })
      yield* client("archived")
      assert.deepInclude((yield* rowsOf("clients", id))[0], { archived_at: start, version: 1 })
      const later = yield* anHourLater
      yield* client(undefined, "renamed")
      assert.deepInclude((yield* rowsOf("clients", id))[0], { archived_at: start, updated_at: later, version: 2 })
      yield* client("active")
      assert.deepInclude((yield* rowsOf("clients", id))[0], { archived_at: null, status: "active", version: 3 })
      yield* client("archived")
      assert.deepInclude((yield* rowsOf("clients", id))[0], { archived_at: later, version: 4 })
      assert.deepInclude((yield* rowsOf("clients", id))[1], { id: "b", archived_at: start, version: 1 })
    })
  )

  it.effect("changes nothing in an existing project when anything is wrong", () =>
    Effect.gen(function* () {
      yield* apply("kept", { clients: [{ id: "a", displayName: "A" }] })
      const before = [yield* projectRow("kept"), yield* rowsOf("clients", "kept")]
      const clients = [
        { id: "a", displayName: "changed" },
        { id: "b", displayName: "B", organizationId: "nowhere" }
      ]
      yield* faultsOf(textOf("kept", { project: { name: "changed" }, clients }))
      assert.deepStrictEqual([yield* projectRow("kept"), yield* rowsOf("clients", "kept")], before)
    })
  )

  it.effect("counts active clients only with a capacity, which it may exceed", () =>
    Effect.gen(function* () {
      const counted = (contactCapacity?: number | null) =>
        Effect.gen(function* () {
          yield* apply("capacity", { project: contactCapacity === undefined ? {} : { contactCapacity } })
          return (yield* projectRow("capacity"))?.["active_clients"]
        })
      yield* apply("capacity", {
        project: { contactCapacity: 1 },
        clients: [
          { id: "a", displayName: "A" },
          { id: "b", displayName: "B" },
          { id: "c", displayName: "C", status: "archived" }
        ]
      })
      assert.strictEqual((yield* projectRow("capacity"))?.["active_clients"], 2)
      assert.strictEqual(yield* counted(null), 0)
      assert.strictEqual(yield* counted(), 0)
      assert.strictEqual(yield* counted(5), 2)
      const sql = yield* SqlClient.SqlClient
      yield* sql`UPDATE projects SET active_clients = 9 WHERE project_id = 'capacity'`
      const report = yield* apply("capacity")
      assert.deepStrictEqual(report.unchanged, { project: 1 })
      assert.strictEqual(yield* counted(), 2)
    })
  )

  it.effect("reports empty lists and not absent ones", () =>
    Effect.gen(function* () {
      const report = yield* apply("empty", { members: [], clients: [] })
      assert.deepStrictEqual(report.unchanged, { project: 0, members: 0, clients: 0 })
      assert.deepStrictEqual(report.created, { project: 1, members: 0, clients: 0 })
    })
  )
})
