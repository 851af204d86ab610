/** The plans of statements that are made while the tables are empty, and kept by a connection as they fill. */
import { assert, layer } from "@effect/vitest"
import { PgClient } from "@effect/sql-pg"
import { Effect, Schema } from "effect"
import { pools } from "../../src/platform/Database/Pools.ts"
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
  "createDeal",
  "patchDeal",
  "createNote",
  "patchNote",
  "deleteNote",
  "rateTicket"
]

/** Tables that grow without a bound, each with the index that finds a row by what names it. */
const byKey: Readonly<Record<string, string>> = {
  projects: "projects_pkey",
  clients: "clients_pkey",
  deals: "deals_pkey",
  notes: "notes_pkey",
  tickets: "tickets_pkey",
  members: "members_pkey",
  organizations: "organizations_pkey",
  idempotency_keys: "idempotency_keys_pkey"
}

/** A node of a plan that reads a table, wherever it stands in the document. */
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

/** The index of a scan; a bitmap scan has it in the node below. */
const indexOf = (plan: Readonly<Record<string, unknown>>): Omit<Scan, "table"> => {
  const below = Array.isArray(plan["Plans"]) ? plan["Plans"].find(isRecord) : undefined
  const scan = plan["Node Type"] === "Bitmap Heap Scan" && below !== undefined ? below : plan
  return { index: scan["Index Name"], condition: scan["Index Cond"] }
}

/** As many nulls as a statement has parameters. */
const nullsFor = (text: string) => {
  const count = Math.max(0, ...[...text.matchAll(/\$([0-9]+)/g)].map(([, number]) => Number(number)))
  return count === 0 ? "" : `(${Array.from({ length: count }, () => "NULL").join(", ")})`
}

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
        // A repeat, and commands that come together.
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
        const sql = yield* PgClient.PgClient
        for (const text of statements) {
          // The session plans for all values alike, so that these don't matter.
          yield* sql.unsafe(`PREPARE planned AS ${text}`)
          const rows = yield* sql.unsafe<Record<string, unknown>>(
            `EXPLAIN (FORMAT JSON) EXECUTE planned${nullsFor(text)}`
          )
          yield* sql`DEALLOCATE planned`
          for (const { condition, index, table } of scansOf(rows)) {
            if (!(table in byKey)) continue
            assert.strictEqual(index, byKey[table], `${table}: ${text}`)
            assert.match(String(condition), /project_id = /, `${table}: ${text}`)
            if (table !== "projects") assert.match(String(condition), /\((id|key) = /, `${table}: ${text}`)
          }
        }
      }).pipe(Effect.provide(empty))
    })
  )
})
