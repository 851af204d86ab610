/** Retention of deliveries with their attempt logs, and of events (contract §10: 30 days). */
import { assert, it as test, layer } from "../../support/Vitest.ts"
import { Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { eventsPerPrune, firstEvent, pruneEvents } from "../../../src/webhooks/delivery/DeliveryMaintenance.ts"
import type { State } from "../../../src/webhooks/delivery/States.ts"
import { DatabaseUrl } from "../../../src/sql/Connections.ts"
import { subscribe } from "../../support/Events.ts"
import { makeProject } from "../../support/Projects.ts"
import { put } from "../../support/Rows.ts"
import { prunersWith } from "../../support/Pruners.ts"
import { TestDatabase } from "../../support/TestDatabase.ts"
import { openShop, serve } from "./Deliveries.support.ts"
import { loopWith } from "./Due.support.ts"
import { until, untilRows } from "../../support/Waiting.ts"

const day = 86_400_000
/** Start of the test by its clock. */
const now = 0
const ago = (days: number) => new Date(now - days * day)

/** The delivery loop on the database of the test, with nothing to send; other workers may come before its own. */
const loopOf = (isFirst: boolean) =>
  loopWith(() => Effect.die("Nothing was due"), isFirst).pipe(
    Layer.provide(
      Layer.effect(
        DatabaseUrl,
        Effect.map(TestDatabase, ({ url }) => url)
      )
    ),
    Layer.merge(prunersWith({}))
  )
const loop = loopOf(true)

interface Past {
  readonly name: string
  readonly status: State
  readonly created: Date
  /** Null for open deliveries. */
  readonly finished: Date | null
  readonly count?: number
}

/** Inserts deliveries to an installation, each of its own event, named `name` with a number. */
const insert = Effect.fnUntraced(function* (projectId: string, { count = 1, created, finished, name, status }: Past) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO events (project_id, id, type, data, traceparent, occurred_at)
    SELECT ${projectId}, ${name}::text || n, 'crm.deal.created.v1', '{}', '', ${created}
    FROM generate_series(1, ${count}::int) n`
  yield* deliver(projectId, { count, created, finished, name, status }, name)
}, Effect.orDie)

/** Inserts deliveries of existing events. */
const deliver = Effect.fnUntraced(function* (projectId: string, past: Past, events: string) {
  const { count = 1, created, finished, name, status } = past
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO deliveries (project_id, id, installation_id, event_id, status, attempts, created_at, available_at,
      leased_until, finished_at, retried_at, attempt_log)
    SELECT ${projectId}, ${name}::text || n, 'shop', ${events}::text || n, ${status}, 1, ${created}::timestamptz,
      ${finished === null ? created : null}::timestamptz, ${status === "delivering" ? created : null}::timestamptz,
      ${finished}::timestamptz, ${finished === null ? new Date() : null}::timestamptz, '[{"number": 1}]'
    FROM generate_series(1, ${count}::int) n`
}, Effect.orDie)

/** Returns the number of remaining rows by name. */
const left = Effect.fnUntraced(function* (table: "deliveries" | "events", projectId: string) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ readonly name: string; readonly count: number }>`
    SELECT rtrim(id, '0123456789') AS name, count(*)::int FROM ${sql(table)}
    WHERE project_id = ${projectId} GROUP BY 1`
  return Object.fromEntries(rows.map(({ count, name }) => [name, count]))
}, Effect.orDie)

/** A pause in real time, so that polling tests leave the processor to the loop. */
const moment = TestClock.withLive(Effect.sleep("20 millis"))

/** Advances the clock by minutes, so that the loop runs, until no rows with these names are left. */
const untilGone = (table: "deliveries" | "events", projectId: string, names: ReadonlyArray<string>) =>
  TestClock.adjust(Duration.minutes(1)).pipe(
    Effect.andThen(moment),
    Effect.andThen(left(table, projectId)),
    Effect.repeat({ until: (rows) => names.every((name) => rows[name] === undefined) })
  )

const old = ["delivered", "dead", "ancient"]
const young = { "young delivered": 1, "young dead": 1, retried: 1 }
const openOnes = { waiting: 1, underway: 1 }

/** Creates a project with deliveries of every age and state. */
const openProject = Effect.fnUntraced(function* (projectId: string, count: number) {
  const sql = yield* SqlClient.SqlClient
  yield* makeProject(projectId)
  yield* subscribe(sql, projectId, "shop")
  for (const past of [
    { name: "delivered", status: "delivered", created: ago(31), finished: ago(30.01), count },
    { name: "dead", status: "dead", created: ago(33), finished: ago(30.01), count: 3 },
    { name: "ancient", status: "dead", created: ago(900), finished: ago(890) },
    { name: "young delivered", status: "delivered", created: ago(29.98), finished: ago(29.98) },
    { name: "young dead", status: "dead", created: ago(32), finished: ago(29.98) },
    // Created long ago; the time of the end counts. Open ones were retried since, otherwise they would expire.
    { name: "retried", status: "delivered", created: ago(300), finished: ago(29.98) },
    { name: "waiting", status: "pending", created: ago(300), finished: null },
    { name: "underway", status: "delivering", created: ago(300), finished: null }
  ] as const) {
    yield* insert(projectId, past)
  }
  // A second delivery of an event whose first is old, and one of an event whose first is still open.
  const both = { created: ago(40), name: "of both", status: "delivered" } as const
  yield* insert(projectId, { ...both, finished: ago(39) })
  yield* deliver(projectId, { ...both, name: "young of both", finished: ago(29.96) }, "of both")
  yield* deliver(projectId, { ...both, name: "done of waiting", finished: ago(100) }, "waiting")
})

layer(TestDatabase.layer)("a delivery that finished more than 30 days ago", (it) => {
  it.effect("is deleted in every project, in batches, and nothing else is", function* () {
    const projects = ["a", "b", "c"]
    yield* openProject("a", 2_500)
    yield* openProject("b", 1_200)
    yield* openProject("c", 1)
    yield* Layer.build(loop)

    // Batch after batch, without a pause: the clock is not advanced.
    const gone = [...old, "of both", "done of waiting"]
    for (const project of projects) {
      yield* Effect.andThen(moment, left("deliveries", project)).pipe(
        Effect.repeat({ until: (rows) => gone.every((name) => rows[name] === undefined) })
      )
    }
    const stay = { ...young, ...openOnes, "young of both": 1 }
    for (const project of projects) {
      yield* untilGone("events", project, old)
      assert.deepStrictEqual(yield* left("deliveries", project), stay)
      assert.deepStrictEqual(yield* left("events", project), { ...young, ...openOnes, "of both": 1 })
    }

    // An hour later, for which the loop would poll thousands of times, the younger deliveries are deleted, too.
    const sql = yield* SqlClient.SqlClient
    yield* sql`UPDATE deliveries SET finished_at = finished_at - interval '1 hour'`
    yield* sql`UPDATE events SET occurred_at = occurred_at - interval '1 hour'`
    for (const project of projects) {
      yield* untilGone("deliveries", project, [...Object.keys(young), "young of both"])
      yield* untilGone("events", project, [...Object.keys(young), "of both"])
      assert.deepStrictEqual(yield* left("deliveries", project), openOnes)
      assert.deepStrictEqual(yield* left("events", project), openOnes)
    }
  })
})

layer(TestDatabase.layer)("a replay that ended more than 30 days ago", (it) => {
  it.effect("is deleted, and no other is", function* () {
    const sql = yield* SqlClient.SqlClient
    yield* makeProject("a")
    yield* subscribe(sql, "a", "shop")
    const replay = (id: string, state: string, finished: Date | null) => ({
      project_id: "a",
      id,
      installation_id: "shop",
      state,
      created_at: ago(90),
      finished_at: finished
    })
    yield* put(
      sql,
      "replays",
      replay("cancelled", "cancelled", ago(30.01)),
      replay("completed", "completed", ago(30.01)),
      replay("running", "running", null),
      replay("young", "completed", ago(29.98))
    )
    yield* Layer.build(loop)
    const ids = Effect.map(sql<{ readonly id: string }>`SELECT id FROM replays ORDER BY id`, (rows) =>
      rows.map(({ id }) => id)
    )
    yield* Effect.andThen(moment, ids).pipe(Effect.repeat({ until: ({ length }) => length < 4 }))
    assert.deepStrictEqual(yield* ids, ["running", "young"])
  })
})

layer(TestDatabase.layer)("the retention of events", (it) => {
  it.effect("is the work of the first worker", function* () {
    yield* makeProject("b")
    yield* subscribe(yield* SqlClient.SqlClient, "b", "shop")
    yield* insert("b", { name: "old", status: "delivered", created: ago(31), finished: ago(31) })
    yield* Effect.scoped(
      Effect.gen(function* () {
        yield* Layer.build(loopOf(false))
        yield* untilGone("deliveries", "b", ["old"])
        for (let minutes = 0; minutes < 3; minutes++) yield* Effect.andThen(TestClock.adjust("1 minutes"), moment)
      })
    )
    assert.deepStrictEqual(yield* left("events", "b"), { old: 1 })
    yield* Effect.scoped(Effect.andThen(Layer.build(loop), untilGone("events", "b", ["old"])))
  })

  it.effect(
    "looks at a bounded number in one statement, and goes past those whose deliveries are younger",
    function* () {
      const sql = yield* SqlClient.SqlClient
      yield* makeProject("a")
      yield* subscribe(sql, "a", "shop")
      const late = { created: ago(40), finished: ago(29), status: "delivered", count: eventsPerPrune } as const
      yield* insert("a", { ...late, name: "late" })
      yield* sql`UPDATE events SET occurred_at = occurred_at + substr(id, 5)::int * interval '1 millisecond'`
      yield* insert("a", { name: "old", status: "delivered", created: ago(31), finished: ago(31) })
      yield* sql`DELETE FROM deliveries WHERE id = 'old1'`

      const [first = assert.fail()] = yield* pruneEvents(sql, ago(30), firstEvent)
      assert.strictEqual(first.seen, eventsPerPrune)
      assert.deepStrictEqual(yield* left("events", "a"), { late: eventsPerPrune, old: 1 })
      const [next] = yield* pruneEvents(sql, ago(30), first)
      assert.strictEqual(next?.seen, 1)
      assert.deepStrictEqual(yield* left("events", "a"), { late: eventsPerPrune })
    }
  )
})

test.live("the delivery loop delivers while old deliveries are deleted", function* () {
  const api = yield* serve({}, "api")
  const project = yield* openShop(api)
  const { projectId, sql } = project
  const long = new Date(Date.now() - 40 * day)
  const past = { name: "old", status: "delivered", created: long, finished: long, count: 20_000 } as const
  yield* insert(projectId, past).pipe(Effect.provideService(SqlClient.SqlClient, sql))
  // Twenty batches then take longer than any wait of the test.
  yield* sql`
    CREATE FUNCTION take_time() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_sleep(2); RETURN NULL; END $$`
  yield* sql`CREATE TRIGGER slow BEFORE DELETE ON deliveries EXECUTE FUNCTION take_time()`
  yield* serve({ DATABASE_URL: api.databaseUrl }, "worker")
  const count = Effect.map(
    left("deliveries", projectId).pipe(Effect.provideService(SqlClient.SqlClient, sql)),
    ({ old = 0 }) => old
  )
  yield* untilRows(count, (count) => count < 20_000)
  yield* Effect.forEach(Array.from({ length: 5 }), () => project.created(), { concurrency: 5 })
  yield* until(() => project.to.hits.length === 5)
  const between = yield* count
  assert.isTrue(between > 0 && between < 20_000, String(between))
})
