/** The statements of each operation, counted on the wire (contract §5, §6), and the first column of each key. */
import { assert, layer } from "../support/Vitest.ts"
import { Context, Effect, Layer, Redacted } from "effect"
import type { Answer } from "../support/ContractHttp.ts"
import { problemOf } from "../support/ContractAnswers.ts"
import { subscribe } from "../support/Events.ts"
import { startServer, TestServer } from "../support/TestServer.ts"
import { path } from "./Clients.support.ts"
import { newKey, referring, requestOf, tokenOf } from "./Requests.ts"
import { missingOf, type Sample } from "./Sample.ts"
import { receiptOfSample, World } from "./Samples.ts"
import { isMutation, walkingOver } from "./Walk.support.ts"
import { makeDatabase } from "../support/TestDatabase.ts"
import { startWireProxy, type WireProxy } from "../support/WireProxy.ts"

/** The notification of delivery loops after a commit. No request waits for it, and one serves several requests. */
const notify = "SELECT pg_notify($1, $2)"

/**
 * Counts the round trips of a request, without the notification and those of its credential, which is cached for a
 * short time. Asserts that none begins or ends a transaction: a request needs no interactive transaction.
 */
const roundTripsOf = <E, R>(request: Effect.Effect<Answer, E, R>) =>
  Effect.gen(function* () {
    const wire = yield* Wire
    wire.take()
    const answer = yield* request
    const roundTrips = wire
      .take()
      .filter(
        ({ statements }) =>
          !statements.some((sql) => /\b(?:FROM api_keys k|UPDATE api_keys)\b/.test(sql) || sql === notify)
      )
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

/**
 * A send is recorded twice: before its provider is called, and with the outcome. A replay also reads the message. A batch stores its
 * key before its items.
 */
const costOf = (sample: Sample) => {
  const statements = sample.receipt === "batch" ? 3 : sendsOrLooksUp(sample) ? 2 : 1
  return { roundTrips: statements, statements }
}
const mostOfReplay = (sample: Sample) => (sample.receipt === "batch" || sendsOrLooksUp(sample) ? 3 : 2)
/** An upsert looks its record up, and the clients of a project without a capacity are counted apart from its credential. */
const sendsOrLooksUp = ({ path, receipt }: Sample) =>
  receipt === "message" || path.includes("/by-external-id/") || path.endsWith("/credential")

/** Repetitions of a request. The first is not counted, as it also prepares statements on its connection. */
const rounds = [0, 1, 2]

/** Asserts that a request costs one statement. */
const assertOnce = Effect.fnUntraced(function* (
  what: string,
  status: number,
  requests: (round: number) => Effect.Effect<Answer>
) {
  for (const round of rounds) {
    const { answer, ...cost } = yield* roundTripsOf(requests(round))
    assert.strictEqual(answer.status, status, `${what}: ${answer.text}`)
    if (round > 0) assert.deepStrictEqual(cost, once, what)
  }
})

/** Asserts the limits of contract §5 for requests that need a second round trip. */
const assertTwiceAtMost = Effect.fnUntraced(function* (
  what: string,
  status: number,
  request: Effect.Effect<Answer>,
  most = 2
) {
  for (const round of rounds) {
    const { answer, roundTrips, statements } = yield* roundTripsOf(request)
    assert.strictEqual(answer.status, status, `${what}: ${answer.text}`)
    if (round > 0) assert.isTrue(roundTrips <= most && statements <= most, `${what}: ${roundTrips} ${statements}`)
  }
})

class Wire extends Context.Service<Wire, WireProxy>()("developer-api-service/test/contract/Statements.test/Wire") {
  static readonly layer = Layer.effect(
    Wire,
    Effect.flatMap(makeDatabase(), (url) => startWireProxy(Redacted.value(url)))
  )
}

/** The walk's projects on a server in the role `api`, which runs nothing in the background. */
const services = World.layerNoDeps.pipe(
  Layer.provideMerge(
    Layer.effect(
      TestServer,
      Effect.flatMap(Wire, ({ url }) => startServer({ DATABASE_URL: url }, "api"))
    )
  ),
  Layer.provideMerge(Wire.layer)
)

layer(services, { excludeTestServices: true })("the number of statements of", (it) => {
  const walk = walkingOver<Wire>(it)
  const walkMutations = walkingOver<Wire>(it, isMutation)

  walk("is one, also with a webhook for every event", function* (sample, { own, restore, seed, send, sql }) {
    const subscribed = yield* seed()
    yield* subscribe(sql, subscribed.projectId, "shop")
    for (const { projectId, token } of [own, subscribed]) {
      for (const round of rounds) {
        yield* restore(sample, projectId)
        const { answer, ...cost } = yield* roundTripsOf(send(requestOf(sample, token)))
        assert.strictEqual(answer.status, sample.status, answer.text)
        if (round > 0) assert.deepStrictEqual(cost, costOf(sample))
      }
    }
  })

  walkMutations("is two at most when its key is known or a record is missing", function* (sample, { ask, own, send }) {
    const key = newKey()
    receiptOfSample(sample, yield* ask(sample, own, { key }))
    const replay = send(requestOf(sample, own.token, { key }))
    yield* assertTwiceAtMost("replay", sample.status, replay, mostOfReplay(sample))
    for (const reference of sample.references ?? []) {
      const change = referring(sample, [reference], missingOf)
      const what = reference.at.join("/")
      const most = mostOfReplay(sample)
      yield* assertTwiceAtMost(what, reference.status ?? 404, send(requestOf(sample, own.token, change)), most)
      yield* assertTwiceAtMost(`reused: ${what}`, 409, send(requestOf(sample, own.token, { ...change, key })), most)
    }
  })

  it.effect("a patch of a deal is one, whatever it changes and however many webhooks subscribe", function* () {
    const { apply, send, sql } = yield* TestServer
    const { seed } = yield* World
    const { projectId, token } = yield* seed()
    const stages = [
      { id: "stage_own", name: "Own" },
      { id: "stage_next", name: "Next" }
    ]
    yield* apply(projectId, { pipelines: [{ id: "pipe_own", name: "Own", stages }] })
    for (let index = 0; index < 5; index++) yield* subscribe(sql, projectId, `shop ${index}`)
    const patch = (json: object) =>
      send({ method: "PATCH", path: "/api/v1/developer/crm/deals/deal_own", token, key: newKey(), json })
    yield* assertOnce("title", 200, (round) => patch({ title: `${round}` }))
    yield* assertOnce("nothing", 200, () => patch({ title: "2" }))
    yield* assertOnce("stage", 200, (round) => patch({ stageId: stages[(round + 1) % 2]?.id }))
    yield* assertOnce("status", 200, (round) => patch({ status: round % 2 === 0 ? "won" : "open" }))
    yield* assertOnce("lifecycle", 200, (round) => patch({ lifecycle: round % 2 === 0 ? "archived" : "active" }))
    // Every effective patch emitted an event for all five, and those of the stage emitted two.
    const deliveries = yield* Effect.orDie(
      sql`SELECT FROM deliveries WHERE project_id = ${projectId} AND status = 'pending'`
    )
    assert.strictEqual(deliveries.length, 5 * (4 * rounds.length + rounds.length))
  })

  it.effect("a request that is refused by its shape is zero", function* () {
    const { send } = yield* TestServer
    const { token } = (yield* World).own
    for (const [status, request] of [
      [400, { path: `${path}?limit=0`, token }],
      [400, { path: `${path}?cursor=nonsense`, token }],
      [400, { method: "POST", path, token, json: {} }],
      [415, { method: "POST", path, token, body: "x" }],
      [404, { path: "/nothing", token }],
      [405, { method: "DELETE", path, token }]
    ] as const) {
      const { answer, ...cost } = yield* roundTripsOf(send(request))
      assert.strictEqual(answer.status, status)
      assert.deepStrictEqual(cost, { roundTrips: 0, statements: 0 }, answer.text)
    }
  })

  it.effect("a token with a wrong checksum is zero, and of an unknown token one", function* () {
    const { send } = yield* TestServer
    const { token } = (yield* World).own
    const wire = yield* Wire
    const wrong = `${token.slice(0, -1)}${token.endsWith("0") ? "1" : "0"}`
    wire.take()
    for (const bad of [wrong, "nonsense", `${token}0`, token.slice(0, -1)]) {
      problemOf(yield* send({ path, token: bad }), 401, "credential_invalid")
    }
    assert.deepStrictEqual(wire.take(), [])

    const unknown = tokenOf(`dk_unknownkey00_${"0".repeat(32)}`)
    problemOf(yield* send({ path, token: unknown }), 401, "credential_invalid")
    assert.strictEqual(wire.take().length, 1)
  })
})

layer(TestServer.layer(), { excludeTestServices: true })("the database catalog", (it) => {
  it.effect("has project_id first in every key, constraint and index", function* () {
    const { sql } = yield* TestServer
    const leads = yield* sql<{ table: string; kind: string; name: string; lead: string | null }>`
      WITH tables AS (
        SELECT oid, relname FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND relname <> 'applied_migrations'
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
      [
        // A token contains the id of its key, not of its project.
        // An operator sees the keys of all projects that end soon.
        "api_keys: index api_keys_by_expiry",
        "api_keys: index api_keys_key_id",
        "api_keys: u api_keys_key_id",
        // An operator signs in for all projects, and out of all.
        "console_ended_sessions: index console_ended_sessions_pkey",
        "console_ended_sessions: p console_ended_sessions_pkey",
        "console_links: index console_links_pkey",
        "console_links: p console_links_pkey",
        // A worker serves all projects: it finds due endpoints by time.
        "endpoint_health: index endpoint_health_due",
        "endpoint_health: index endpoint_health_due_suspect",
        // An operator sees the failing endpoints of all projects.
        "endpoint_health: index endpoint_health_failing",
        // The audit of what concerns all projects.
        "service_audit: index service_audit_pkey",
        "service_audit: p service_audit_pkey"
      ]
    )
  })

  it.effect("orders text by byte in every index, whatever the collation of the database", function* () {
    const { sql } = yield* TestServer
    const others = yield* sql`
      SELECT indexrelid::regclass::text AS index FROM pg_index JOIN pg_class ON pg_class.oid = indrelid
        CROSS JOIN LATERAL unnest(indcollation::oid[]) AS key (sorted_by)
      WHERE relnamespace = 'public'::regnamespace AND sorted_by NOT IN (0, 'pg_catalog."C"'::regcollation)`
    assert.deepStrictEqual(others, [])
  })

  it.effect("has a primary key and a project_id that is not null in every table", function* () {
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
      WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND relname <> 'applied_migrations'`
    assert.isAbove(tables.length, 30)
    assert.deepStrictEqual(
      tables
        .filter(({ bytewise, owned, primary }) => !(primary && owned && bytewise))
        .map(({ primary, table }) => ({ primary, table }))
        .toSorted((one, other) => one.table.localeCompare(other.table)),
      // An operator signs in for all projects, and out of all.
      [
        { primary: true, table: "console_ended_sessions" },
        { primary: true, table: "console_links" },
        { primary: true, table: "service_audit" }
      ]
    )
  })
})
