/** A delivery loop that misses notices, or can't record or sign: it recovers, and delays no other webhook (contract §10). */
import { assert, describe, it, layer } from "../../support/Vitest.ts"
import { Context, Effect, Latch, Metric, References } from "effect"
import type { SqlClient } from "effect/sql"
import { DeliveryLoop } from "../../../src/webhooks/delivery/DeliveryLoop.ts"
import type { AttemptOutcome } from "../../../src/webhooks/address/Sender.ts"
import { MetricsEnabled } from "../../../src/telemetry/Telemetry.ts"
import { freePort } from "../../support/Process.ts"
import { answered } from "../../support/Claims.ts"
import { holding, untilBlocking } from "../../support/Locks.ts"
import { TestDatabase } from "../../support/TestDatabase.ts"
import { startServer } from "../../support/TestServer.ts"
import { passUntil, until, untilRows } from "../../support/Waiting.ts"
import { type Hit, inTurn, ok, open, openShop, receiver, serve, status, verifies } from "./Deliveries.support.ts"
import { startLoop, workerId } from "./Due.support.ts"

const created = ["crm.deal.created.v1"]

/** Has PostgreSQL refuse changes of deliveries, with an error code; returns what ends that. */
const refuse = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, changes: string, code: string) {
  yield* sql`
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = '${sql.literal(code)}'; END $$`
  yield* sql`CREATE TRIGGER refuse BEFORE UPDATE ON deliveries FOR EACH ${sql.literal(changes)} EXECUTE FUNCTION refuse()`
  return { allow: Effect.orDie(sql`DROP TRIGGER refuse ON deliveries`) }
}, Effect.orDie)

const delivered = "ROW WHEN (NEW.status = 'delivered')"

/** Commits an event with its delivery, like a process that is killed before its NOTIFY. */
const commit = (sql: SqlClient.SqlClient, projectId: string) =>
  Effect.orDie(sql`
    WITH event AS (
      INSERT INTO events (project_id, id, type, data, traceparent, occurred_at)
      VALUES (${projectId}, new_id('evt', now()), 'crm.deal.created.v1', '{"deal": null}',
        '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01', now())
      RETURNING id
    )
    INSERT INTO deliveries (project_id, id, installation_id, event_id, available_at, created_at)
    SELECT ${projectId}::text, new_id('dlv', now()), 'shop', id, now(), now() FROM event`)

describe("a delivery that was committed without a notice", () => {
  it.live("is found by the sweep on idle and on busy endpoints", function* () {
    const server = yield* serve()
    const project = yield* openShop(server, ok, created)
    const { to } = project
    yield* commit(server.sql, project.projectId)
    yield* until(() => to.hits.length === 1)
    yield* project.created()
    yield* project.finished
    yield* commit(server.sql, project.projectId)
    yield* until(() => to.hits.length === 3)
  })
})

describe("a notice whose claim fails", () => {
  it.live("is not lost: the next claim visits its endpoint", function* () {
    const server = yield* serve()
    const project = yield* openShop(server, ok, created)
    const { sql, to } = project
    // The first claim fails, and the sweep marks nothing.
    yield* sql`CREATE SEQUENCE claims`
    yield* sql`
      CREATE FUNCTION refuse_first() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF nextval('claims') = 1 THEN RAISE EXCEPTION 'away' USING ERRCODE = 'cannot_connect_now'; END IF;
        RETURN NEW;
      END $$`
    yield* sql`
      CREATE TRIGGER refuse_first BEFORE UPDATE ON deliveries FOR EACH ROW
      WHEN (NEW.status = 'delivering') EXECUTE FUNCTION refuse_first()`
    yield* sql`
      CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$`
    yield* sql`
      CREATE TRIGGER skip BEFORE UPDATE ON endpoint_health FOR EACH ROW
      WHEN (OLD.next_due_at IS NULL AND NEW.next_due_at IS NOT NULL) EXECUTE FUNCTION skip()`
    yield* project.created()
    yield* until(() => to.hits.length === 1)
  })
})

describe("a loop whose record fails as a defect", () => {
  it.live("is restarted and continues, and repeats deliveries that were not recorded", function* () {
    const server = yield* serve({ WEBHOOK_TIMEOUT: "60s" })
    const project = yield* openShop(server, ok, created)
    const { projectId, sql, to } = project
    const { allow } = yield* refuse(sql, delivered, "check_violation")
    yield* project.created()
    yield* until(() => to.hits.length === 1)
    yield* Effect.sleep("200 millis")
    yield* allow
    yield* project.created()
    yield* untilRows(project.deliveries(), (rows) => rows.some(({ status }) => status === "delivered"))
    assert.strictEqual((yield* project.health()).inFlight, 1)
    yield* sql`UPDATE deliveries SET leased_until = now() WHERE project_id = ${projectId} AND status = 'delivering'`
    yield* project.finished
    assert.strictEqual(to.hits.length, 3)
    assert.strictEqual((yield* project.health()).inFlight, 0)
  })
})

layer(TestDatabase.layer)("a delivery loop whose statements all fail", (it) => {
  it.effect("is shown as stalled while it retries, until a statement succeeds", function* () {
    const port = yield* Effect.promise(freePort)
    const { sql } = yield* startServer({ ADMIN_PORT: String(port) })
    const stalled = Effect.promise(async () => {
      const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
      return /^background_stalled\{fiber="deliveries"\} (\S+)/m.exec(metrics)?.[1]
    })
    yield* passUntil(stalled, (value) => value === "0")
    // PostgreSQL's error when its disk is full: the loop keeps its results and retries.
    const { allow } = yield* refuse(sql, "STATEMENT", "disk_full")
    yield* passUntil(stalled, (value) => value === "1")
    yield* allow
    yield* passUntil(stalled, (value) => value === "0")
  })
})

const isDelivered = (row: { readonly status: string }) => row.status === "delivered"

it.live("a defect in recording results leaves their leases to the database, so that the loop still drains", () =>
  Effect.gen(function* () {
    const server = yield* serve({}, "api")
    const project = yield* open(server)
    yield* project.subscribe("shop", "http://127.0.0.1:1/hook")
    let sent = 0
    const send = () =>
      Effect.sync(() => {
        sent++
        return answered(200)
      })
    const loop = yield* startLoop(server, send)
    yield* refuse(project.sql, delivered, "raise_exception")
    yield* project.created()
    yield* until(() => sent === 1)
    yield* Context.get(loop, DeliveryLoop).drain
    // Its lease ends by the database's clock; then the delivery is sent again.
    assert.deepInclude((yield* project.deliveries())[0], { status: "delivering", attempts: 1 })
  }).pipe(Effect.provideService(References.MinimumLogLevel, "None"), Effect.scoped)
)

it.live("a delivery for which this host has no connection is tried again, and only that is counted", function* () {
  const server = yield* serve({}, "api")
  const project = yield* open(server)
  yield* project.subscribe("shop", "http://127.0.0.1:1/hook")
  const outcomes: Array<AttemptOutcome> = [1, 2].map(() => ({ _tag: "failed", code: "host_exhausted" }))
  yield* startLoop(server, () => Effect.sync(() => outcomes.pop() ?? answered(200))).pipe(
    Effect.andThen(project.created()),
    Effect.andThen(
      untilRows(
        Effect.orDie(
          project.sql`SELECT attempts, jsonb_array_length(attempt_log) AS log FROM deliveries WHERE status = 'delivered'`
        ),
        (rows) => rows.length === 1
      )
    ),
    Effect.tap((rows) => Effect.sync(() => assert.deepStrictEqual(rows, [{ attempts: 1, log: 1 }]))),
    Effect.andThen(Metric.snapshot),
    Effect.tap((all) =>
      Effect.sync(() => {
        const counted = all.find(({ id }) => id === "webhook_host_exhausted_total")
        assert.strictEqual(counted?.type === "Counter" ? Number(counted.state.count) : undefined, 2)
      })
    ),
    Effect.scoped,
    Effect.provideService(MetricsEnabled, true),
    Effect.provideService(Metric.MetricRegistry, new Map())
  )
  const [health] = yield* Effect.orDie(project.sql`SELECT failures FROM endpoint_health WHERE failures > 0`)
  assert.isUndefined(health)
})

it.live("a 410 that is recorded when the loop ends disables the webhook", function* () {
  const server = yield* serve({}, "api")
  const project = yield* open(server)
  const { sql } = project
  yield* project.subscribe("shop", "http://127.0.0.1:1/hook")
  // The disk is full once, so the loop ends during its pause.
  yield* Effect.orDie(sql`CREATE SEQUENCE tries`)
  yield* Effect.orDie(sql`
    CREATE FUNCTION refuse_once() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN IF nextval('tries') = 1 THEN RAISE EXCEPTION 'refused' USING ERRCODE = 'disk_full'; END IF; RETURN NEW; END $$`)
  yield* Effect.orDie(sql`
    CREATE TRIGGER refuse_once BEFORE UPDATE ON webhooks FOR EACH ROW EXECUTE FUNCTION refuse_once()`)
  yield* startLoop(server, () => Effect.succeed(answered(410))).pipe(
    Effect.andThen(project.created()),
    Effect.andThen(untilRows(Effect.orDie(sql`SELECT FROM tries WHERE is_called`), (rows) => rows.length === 1)),
    Effect.scoped
  )
  assert.deepInclude((yield* project.deliveries())[0], { status: "dead", attempts: 1 })
  assert.deepStrictEqual(yield* project.webhook(), { enabled: false, version: 2 })
})

describe("a transaction that holds the row of an endpoint or of a delivery", () => {
  it.live("delays no other endpoint, and its own results until it ends", function* () {
    const server = yield* serve()
    const holds = [["webhooks", "endpoint_health"], ["deliveries"]]
    for (const [code, tables] of [200, 410].flatMap((code) => holds.map((tables) => [code, tables] as const))) {
      const held: Array<Hit> = []
      const first = yield* openShop(server, (hit) => void held.push(hit))
      const second = yield* openShop(server)
      yield* first.created()
      yield* until(() => held.length === 1)
      const { release } = yield* holding(
        first.sql,
        Effect.forEach(
          tables,
          (table) => first.sql`SELECT FROM ${first.sql(table)} WHERE project_id = ${first.projectId} FOR UPDATE`
        )
      )
      for (const hit of held) status(code)(hit, 0)
      for (let n = 1; n <= 3; n++) {
        yield* second.created()
        yield* untilRows(second.deliveries(), (rows) => rows.length === n && rows.every(isDelivered))
      }
      assert.strictEqual((yield* first.deliveries())[0]?.status, "delivering")
      yield* release
      const state = code === 200 ? "delivered" : "dead"
      yield* untilRows(first.deliveries(), (rows) => rows.every((row) => row.status === state))
      assert.strictEqual((yield* first.health("shop")).inFlight, 0)
    }
  })
})

describe("a transaction that holds a row of one of two endpoints whose results are in one batch", () => {
  it.live("delays only the results of that endpoint", function* () {
    const server = yield* serve({}, "api")
    const { sql } = server
    const [answers, lateAnswers] = [yield* Latch.make(false), yield* Latch.make(false)]
    let sent = 0
    yield* startLoop(server, ({ url }) =>
      Effect.sync(() => ++sent).pipe(
        Effect.andThen(Latch.await(url.endsWith("/late") ? lateAnswers : answers)),
        Effect.as(answered(200))
      )
    )
    for (const table of ["endpoint_health", "deliveries"]) {
      const [before, first, second] = [yield* open(server), yield* open(server), yield* open(server)]
      for (const project of [before, first, second]) {
        yield* project.subscribe("shop", `http://127.0.0.1:1/${project === before ? "" : "late"}`, created)
        yield* project.created()
      }
      yield* until(() => sent === 3)
      // The results of the others arrive while the loop waits for the delivery of `before`, so that they are one batch.
      const { release } = yield* holding(
        sql,
        Effect.gen(function* () {
          yield* sql`SELECT FROM deliveries WHERE project_id = ${before.projectId} FOR UPDATE`
          yield* sql`SELECT FROM ${sql(table)} WHERE project_id = ${first.projectId} FOR UPDATE`
          yield* Latch.open(answers)
          yield* untilBlocking(sql)
          yield* Latch.open(lateAnswers)
        })
      )
      yield* Effect.ensuring(second.finished, Effect.orDie(release))
      // Not by another attempt after the end of its lease.
      assert.deepInclude((yield* second.deliveries())[0], { status: "delivered", attempts: 1 }, table)
      yield* first.finished
      yield* before.finished
      for (const latch of [answers, lateAnswers]) yield* Latch.close(latch)
      sent = 0
    }
  })
})

describe("a transaction that holds the rows in which a worker counts attempts", () => {
  it.live("stops no result, and no count is lost", function* () {
    const server = yield* serve({}, "api")
    const { sql } = server
    // Each row that the worker would use for all projects, in this minute and in the next ones.
    const { release } = yield* holding(
      sql,
      sql`
        INSERT INTO attempt_minutes (project_id, minute, worker_id, delivered, bucket, attempts)
        SELECT '', date_trunc('minute', now()) + ahead * interval '1 minute', ${workerId}::bigint, true, bucket, 0
        FROM generate_series(0, 3) ahead, generate_series(0, 100) bucket`
    )
    yield* startLoop(server, () => Effect.succeed(answered(200)))
    const project = yield* open(server)
    yield* project.subscribe("shop", "http://127.0.0.1:1/", created)
    const recorded = Effect.gen(function* () {
      for (let n = 0; n < 3; n++) {
        yield* project.created()
        yield* project.finished
      }
    })
    yield* Effect.ensuring(recorded, Effect.orDie(release))
    // Not by another attempt after the end of its lease.
    assert.isTrue((yield* project.deliveries()).every(({ attempts }) => attempts === 1))
    const counts = sql<{ all: number; own: number }>`
      SELECT sum(attempts) FILTER (WHERE project_id = '')::int AS all,
        sum(attempts) FILTER (WHERE project_id = ${project.projectId})::int AS own
      FROM attempt_minutes`
    assert.deepStrictEqual(yield* counts, [{ all: 3, own: 3 }])
  })
})

describe("a transaction that holds a pending delivery", () => {
  it.live("delays no other endpoint, and that delivery until it ends", function* () {
    const server = yield* serve()
    // Only a poll, which also visits the endpoint of that delivery, finds a retry.
    const again = inTurn(status(503), ok, status(503), ok, status(503), ok)
    const [first, second] = [yield* openShop(server), yield* openShop(server, again)]
    const { projectId, sql } = first
    yield* first.created()
    yield* first.finished
    yield* first.setHealth("parked_until = now() + interval '1 hour'")
    yield* first.created()
    yield* untilRows(first.deliveries(), (rows) => rows.length === 2)
    const { release } = yield* holding(sql, sql`SELECT FROM deliveries WHERE project_id = ${projectId} FOR UPDATE`)
    yield* first.setHealth("parked_until = NULL, next_due_at = now()")
    const delivered = Effect.gen(function* () {
      for (let n = 1; n <= 3; n++) {
        yield* second.created()
        yield* untilRows(second.deliveries(), (rows) => rows.length === n && rows.every(isDelivered))
      }
      assert.strictEqual(first.to.hits.length, 1)
    })
    yield* Effect.ensuring(delivered, Effect.orDie(release))
    yield* first.finished
    assert.strictEqual(first.to.hits.length, 2)
  })
})

const otherKey = Buffer.alloc(32, 8).toString("base64")

describe("a webhook whose secret can't be opened", () => {
  it.live("fails on the schedule until its deliveries are dead, and leaves nothing in flight", function* () {
    const old = yield* serve({}, "api")
    const names = Array.from({ length: 33 }, (_, n) => `shop${n}`)
    const project = yield* open(old, names)
    const shop = yield* receiver()
    // Started before anything is stored: afterwards its key would be refused.
    const server = yield* serve({ DATABASE_URL: old.databaseUrl, SECRET_KEY: otherKey })
    for (const name of names) yield* project.subscribe(name, shop.url, created)
    yield* project.created()
    yield* untilRows(project.deliveries(), (rows) => rows.length > 0 && rows.every(({ status }) => status === "dead"))
    const attempts = (yield* project.deliveries()).map(({ attempts }) => attempts)
    assert.deepStrictEqual(
      attempts,
      names.map(() => 3)
    )
    for (const name of names) assert.strictEqual((yield* project.health(name)).inFlight, 0, name)
    assert.lengthOf(shop.hits, 0)
    const neighbour = yield* open(server)
    const healthy = yield* receiver()
    yield* neighbour.subscribe("shop", healthy.url)
    yield* neighbour.created()
    yield* until(() => healthy.hits.length === 1)
  })
})

it.live("a webhook whose older secret can't be opened is signed with the current one", function* () {
  const project = yield* openShop(yield* serve())
  const current = yield* project.rotate("shop", 1)
  yield* project.sql`UPDATE webhook_secrets SET sealed = sha512(sealed) WHERE retires_at <> 'infinity'`
  yield* project.created()
  yield* project.finished
  assert.deepStrictEqual(
    project.to.hits.map((hit) => verifies(current, hit)),
    [true]
  )
})
