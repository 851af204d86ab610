/** What the operations cost the database, counted on the wire (contract §5, §6), and where its keys begin. */
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer, Redacted } from "effect"
import { crc32 } from "node:zlib"
import type { Answer } from "../support/ContractHttp.ts"
import { problemOf, receiptOf } from "../support/ContractAnswers.ts"
import { makeDatabase } from "../support/TestDatabase.ts"
import { startServer, TestServer } from "../support/TestServer.ts"
import { startWireProxy } from "../support/WireProxy.ts"
import { callsOf, path } from "./Clients.support.ts"
import { newKey } from "./Requests.ts"

class Wire extends Context.Service<Wire, Effect.Success<ReturnType<typeof startWireProxy>>>()(
  "developer-api/test/Wire"
) {}

/** The service behind the proxy, in the role that runs nothing in the background. */
const services = Layer.effect(
  TestServer,
  Effect.flatMap(Wire, ({ url }) => startServer({ DATABASE_URL: url }, "api"))
).pipe(
  Layer.provideMerge(
    Layer.effect(
      Wire,
      Effect.flatMap(makeDatabase(), (url) => startWireProxy(Redacted.value(url)))
    )
  )
)

const open = Effect.gen(function* () {
  const server = yield* TestServer
  return callsOf(server, yield* server.seed({ project: { contactCapacity: 1_000 } }))
})

/**
 * The round trips of a request, without those of its credential, which is cached for a moment. The SQL of each must be
 * one statement, and never BEGIN: a request needs no interactive transaction.
 */
const roundTripsOf = <E, R>(request: Effect.Effect<Answer, E, R>) =>
  Effect.gen(function* () {
    const wire = yield* Wire
    wire.take()
    const answer = yield* request
    const roundTrips = wire.take().filter(({ statements }) => !statements.some((sql) => /\bapi_keys\b/.test(sql)))
    for (const { statements } of roundTrips) {
      for (const sql of statements) assert.notMatch(sql, /^\s*(begin|commit|start transaction|savepoint)\b/i)
    }
    return {
      answer,
      roundTrips: roundTrips.length,
      statements: roundTrips.flatMap(({ statements }) => statements).length
    }
  })

const once = { roundTrips: 1, statements: 1 }

layer(services, { excludeTestServices: true })("on the wire", (it) => {
  it.effect("a create, a patch, a get and a page cost one statement each", () =>
    Effect.gen(function* () {
      const { create, created, get, list, patch } = yield* open
      const ids = [yield* created(), yield* created(), yield* created()]
      const [id = ""] = ids
      const { nextCursor } = yield* (yield* open).page()
      assert.isNull(nextCursor)
      for (let round = 0; round < 3; round++) {
        for (const [what, request] of [
          ["create", create({ displayName: "A", tags: ["a"] })],
          ["patch", patch(id, { displayName: `B ${round}` })],
          ["patch that changes nothing", patch(id, { displayName: `B ${round}` })],
          ["get", get(id)],
          ["first page", list("limit=2")],
          ["filtered page", list("limit=2&status=active")]
        ] as const) {
          const { answer, ...cost } = yield* roundTripsOf(request)
          assert.isBelow(answer.status, 300, answer.text)
          // What is prepared once per connection may cost the first requests more.
          if (round > 0) assert.deepStrictEqual(cost, once, what)
        }
      }
    })
  )

  it.effect("a page deep in the list costs what the first costs", () =>
    Effect.gen(function* () {
      const { created, list, page } = yield* open
      for (let index = 0; index < 6; index++) yield* created()
      for (const _ of ["to prepare", "to count"]) {
        let cursor = (yield* page("limit=2")).nextCursor
        while (cursor !== null) {
          const { answer, ...cost } = yield* roundTripsOf(list(`limit=2&cursor=${cursor}`))
          assert.deepStrictEqual([answer.status, cost], [200, once])
          cursor = (yield* page(`limit=2&cursor=${cursor}`)).nextCursor
        }
      }
    })
  )

  it.effect("a replay, a reused key and a failed command cost two statements at most", () =>
    Effect.gen(function* () {
      const { create, created, patch } = yield* open
      const id = yield* created()
      const [first, second] = [newKey(), newKey()]
      receiptOf(yield* create({ displayName: "A" }, first), 201)
      receiptOf(yield* patch(id, { displayName: "B" }, second), 200)
      for (const round of [0, 1]) {
        for (const [status, request] of [
          [201, create({ displayName: "A" }, first)],
          [200, patch(id, { displayName: "B" }, second)],
          [409, create({ displayName: "C" }, first)],
          [404, patch("nothing", { displayName: "C" })],
          [404, patch(id, { organizationId: "nothing" })]
        ] as const) {
          const { answer, roundTrips, statements } = yield* roundTripsOf(request)
          assert.strictEqual(answer.status, status)
          if (round > 0) assert.isTrue(roundTrips <= 2 && statements <= 2, `${status}: ${roundTrips} ${statements}`)
        }
      }
    })
  )

  it.effect("what is refused before the record costs nothing", () =>
    Effect.gen(function* () {
      const { list, token, server } = yield* open
      for (const [status, request] of [
        [400, list("limit=0")],
        [400, list("cursor=nonsense")],
        [400, server.send({ method: "POST", path, token, json: {} })],
        [415, server.send({ method: "POST", path, token, body: "x" })],
        [404, server.send({ path: "/nothing", token })],
        [405, server.send({ method: "DELETE", path, token })]
      ] as const) {
        const { answer, ...cost } = yield* roundTripsOf(request)
        assert.strictEqual(answer.status, status)
        assert.deepStrictEqual(cost, { roundTrips: 0, statements: 0 }, answer.text)
      }
    })
  )

  it.effect("a token with a wrong checksum costs nothing, an unknown one a look", () =>
    Effect.gen(function* () {
      const { server, token } = yield* open
      const wire = yield* Wire
      const wrong = `${token.slice(0, -1)}${token.endsWith("0") ? "1" : "0"}`
      wire.take()
      for (const bad of [wrong, "nonsense", `${token}0`, token.slice(0, -1)]) {
        problemOf(yield* server.send({ path, token: bad }), 401, "credential_invalid")
      }
      assert.deepStrictEqual(wire.take(), [])

      const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
      const body = `dk_unknownkey00_${"0".repeat(32)}`
      let checksum = ""
      for (let rest = crc32(body); rest > 0; rest = Math.floor(rest / 62))
        checksum = alphabet.charAt(rest % 62) + checksum
      problemOf(yield* server.send({ path, token: body + checksum.padStart(6, "0") }), 401, "credential_invalid")
      assert.strictEqual(wire.take().length, 1)
    })
  )
})

layer(TestServer.layer(), { excludeTestServices: true })("in the catalog", (it) => {
  it.effect("every key, constraint and index of every table leads with the project", () =>
    Effect.gen(function* () {
      const { sql } = yield* TestServer
      const leads = yield* sql<{ table: string; kind: string; name: string; lead: string | null }>`
        WITH tables AS (
          SELECT oid, relname FROM pg_class
          WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND relname <> 'effect_sql_migrations'
        ),
        -- Each end of a foreign key counts.
        keys AS (
          SELECT conrelid AS table, contype::text AS kind, conname AS name, conrelid AS of, conkey[1] AS attribute
          FROM pg_constraint WHERE contype IN ('p', 'u', 'f', 'x')
          UNION ALL
          SELECT conrelid, 'referenced', conname, confrelid, confkey[1] FROM pg_constraint WHERE contype = 'f'
          UNION ALL
          SELECT indrelid, 'index', indexrelid::regclass::name, indrelid, indkey[0] FROM pg_index
        )
        SELECT tables.relname AS "table", keys.kind, keys.name, attname AS lead
        FROM keys JOIN tables ON tables.oid = keys.table
          LEFT JOIN pg_attribute ON attrelid = keys.of AND attnum = keys.attribute`
      assert.isAbove(leads.length, 10)
      assert.deepStrictEqual(
        leads
          .filter(({ lead }) => lead !== "project_id")
          .map(({ kind, name, table }) => `${table}: ${kind} ${name}`)
          .toSorted(),
        // A token names its key, and not its project.
        ["api_keys: index api_keys_key_id", "api_keys: u api_keys_key_id"]
      )
    })
  )

  it.effect("every table has a primary key, and a project that is never null and belongs to it", () =>
    Effect.gen(function* () {
      const { sql } = yield* TestServer
      const tables = yield* sql<{ table: string; primary: boolean; owned: boolean; bytewise: boolean }>`
        SELECT relname AS "table",
          EXISTS (SELECT FROM pg_constraint WHERE conrelid = pg_class.oid AND contype = 'p') AS primary,
          EXISTS (
            SELECT FROM pg_attribute
            WHERE attrelid = pg_class.oid AND attname = 'project_id' AND attnotnull
          ) AS owned,
          -- Ids compare by byte, whatever the database's collation.
          NOT EXISTS (
            SELECT FROM pg_attribute
            WHERE attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped AND attcollation <> 0
              AND attcollation <> 'pg_catalog."C"'::regcollation
              AND (attname IN ('id', 'key') OR attname LIKE '%\\_id' AND attname <> 'external_id')
          ) AS bytewise
        FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND relname <> 'effect_sql_migrations'`
      assert.includeMembers(
        tables.map(({ table }) => table),
        ["projects", "members", "organizations", "clients", "api_keys", "idempotency_keys"]
      )
      assert.deepStrictEqual(
        tables.filter(({ bytewise, owned, primary }) => !(primary && owned && bytewise)),
        []
      )
    })
  )
})
