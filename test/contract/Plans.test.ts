/** Plans of statements that are made on empty tables, and that a connection keeps while the tables grow. */
import { assert, layer } from "@effect/vitest"
import { PgClient } from "@effect/sql-pg"
import { Effect, Schema } from "effect"
import { pools } from "../../src/platform/Pools.ts"
import { makeDatabase } from "../support/TestDatabase.ts"
import { TestServer } from "../support/TestServer.ts"
import { newKey, requestOf } from "./Requests.ts"
import { samples, World } from "./Samples.ts"
import { services, Wire } from "./Wire.support.ts"

const operations = [
  "getClient",
  "createClient",
  "patchClient",
  "getDeal",
  "getCampaign",
  "getMessage",
  "getWebhook",
  "getDelivery",
  "createDeal",
  "patchDeal",
  "createNote",
  "patchNote",
  "deleteNote",
  "rateTicket"
]

/** Tables that grow without bound, each with the index that finds a row by its key. */
const byKey: Readonly<Record<string, string>> = {
  projects: "projects_pkey",
  clients: "clients_pkey",
  deals: "deals_pkey",
  notes: "notes_pkey",
  tickets: "tickets_pkey",
  members: "members_pkey",
  organizations: "organizations_pkey",
  idempotency_keys: "idempotency_keys_pkey",
  campaigns: "campaigns_pkey",
  messages: "messages_pkey",
  events: "events_pkey"
}

/** Lists with the index that has their order, so that a page reads no more records than it has. */
const byOrder: ReadonlyArray<readonly [operation: string, query: string, table: string, index: string]> = [
  ["listClients", "status=all", "clients", "clients_by_age"],
  ["listClients", "status=archived&limit=100", "clients", "clients_by_status"],
  ["listDeals", "lifecycle=archived", "deals", "deals_by_lifecycle"],
  ["listDeals", "lifecycle=all&status=won&limit=7", "deals", "deals_by_status"],
  ["listNotes", "", "notes", "notes_by_deal"],
  ["listSegments", "", "segments", "segments_by_age"],
  ["listCampaigns", "", "campaigns", "campaigns_by_age"],
  ["listCampaigns", "status=draft", "campaigns", "campaigns_by_status"],
  ["listPipelines", "", "pipelines", "pipelines_pkey"],
  ["listInstallations", "limit=7", "installations", "installations_pkey"],
  ["listDeliveries", "", "deliveries", "deliveries_by_installation"],
  ["listDeliveries", "status=pending&limit=100", "deliveries", "deliveries_by_state"],
  ["listDeliveries", "eventType=crm.deal.created.v1", "deliveries", "deliveries_by_state"],
  ["listDeliveries", "status=dead&eventType=crm.deal.created.v1", "deliveries", "deliveries_by_state"]
]

/** A node that reads a table, at any depth of a plan. */
interface Scan {
  readonly table: string
  readonly index: unknown
  readonly condition: unknown
}

const isRecord = Schema.is(Schema.Record(Schema.String, Schema.Unknown))

const scansOf = (plan: unknown): ReadonlyArray<Scan> => {
  if (Array.isArray(plan)) return plan.flatMap(scansOf)
  if (!isRecord(plan)) return []
  const table = plan["Relation Name"]
  const own =
    typeof table === "string" && String(plan["Node Type"]).endsWith("Scan") ? [{ table, ...indexOf(plan) }] : []
  return [...own, ...Object.values(plan).flatMap(scansOf)]
}

/** Returns the index of a scan; that of a bitmap scan is in its child node. */
const indexOf = (plan: Readonly<Record<string, unknown>>): Omit<Scan, "table"> => {
  const below = Array.isArray(plan["Plans"]) ? plan["Plans"].find(isRecord) : undefined
  const scan = plan["Node Type"] === "Bitmap Heap Scan" && below !== undefined ? below : plan
  return { index: scan["Index Name"], condition: scan["Index Cond"] }
}

/** Returns as many nulls as a statement has parameters. */
const nullsFor = (text: string) => {
  const count = Math.max(0, ...[...text.matchAll(/\$([0-9]+)/g)].map(([, number]) => Number(number)))
  return count === 0 ? "" : `(${Array.from({ length: count }, () => "NULL").join(", ")})`
}

/** Returns the generic plan of a statement, which does not depend on the values. */
const planOf = Effect.fnUntraced(function* (text: string) {
  const sql = yield* PgClient.PgClient
  yield* sql`SET plan_cache_mode = force_generic_plan`
  yield* sql.unsafe(`PREPARE planned AS ${text}`)
  const rows = yield* sql.unsafe<Record<string, unknown>>(`EXPLAIN (FORMAT JSON) EXECUTE planned${nullsFor(text)}`)
  yield* sql`DEALLOCATE planned`
  return rows
})

layer(services, { excludeTestServices: true })("statements planned on empty tables", (it) => {
  it.effect("read by key through an index", () =>
    Effect.gen(function* () {
      const { send } = yield* TestServer
      const { own, restore } = yield* World
      const wire = yield* Wire
      wire.take()
      for (const name of operations) {
        const sample = samples[name] ?? assert.fail(name)
        const key = newKey()
        yield* restore(sample, own.projectId)
        yield* send(requestOf(sample, own.token, { key }))
        // A replay and concurrent commands.
        yield* Effect.forEach(
          [key, ...Array.from({ length: 8 }, newKey)],
          (each) => send(requestOf(sample, own.token, { key: each })),
          { concurrency: "unbounded" }
        )
      }
      const texts = new Set(wire.take().flatMap(({ statements }) => statements))
      const statements = [...texts].filter(
        (text) => /^\s*(WITH (requested|command)|SELECT)/.test(text) && !/pg_notify|api_keys/.test(text)
      )
      assert.isTrue(statements.some((text) => text.includes("SELECT DISTINCT project_id FROM requested")))
      assert.isAbove(statements.length, operations.length)

      const empty = PgClient.layer({
        url: yield* makeDatabase(),
        maxConnections: 1,
        startupParameters: pools.mutations.session
      })
      yield* Effect.gen(function* () {
        for (const text of statements) {
          for (const { condition, index, table } of scansOf(yield* planOf(text))) {
            if (!(table in byKey)) continue
            assert.strictEqual(index, byKey[table], `${table}: ${text}`)
            assert.match(String(condition), /project_id = /, `${table}: ${text}`)
            if (table !== "projects") assert.match(String(condition), /\((id|key) >?= /, `${table}: ${text}`)
          }
        }
      }).pipe(Effect.provide(empty))
    })
  )

  it.effect("read pages in the order of an index", () =>
    Effect.gen(function* () {
      const { send } = yield* TestServer
      const { own, restore } = yield* World
      const wire = yield* Wire
      const url = yield* makeDatabase()
      for (const [name, query, table, index] of byOrder) {
        const sample = samples[name] ?? assert.fail(name)
        yield* restore(sample, own.projectId)
        wire.take()
        yield* send(requestOf(sample, own.token, { query }))
        const texts = wire.take().flatMap(({ statements }) => statements)
        const text = texts.find((text) => text.includes("LIMIT")) ?? assert.fail(name)
        const plan = yield* planOf(text).pipe(
          Effect.provide(PgClient.layer({ url, maxConnections: 1, startupParameters: pools.reads.session }))
        )
        const indexes = scansOf(plan).filter((scan) => scan.table === table)
        assert.isNotEmpty(indexes, text)
        for (const scan of indexes) assert.strictEqual(scan.index, index, text)
        assert.notInclude(JSON.stringify(plan), '"Filter"', text)
      }
    })
  )
})
