/**
 * Rows that claims and records read: only those of visited endpoints, with any number of parked or idle ones, and
 * of changed deliveries (contract §10).
 */
import { PgClient } from "@effect/sql-pg"
import { assert } from "@effect/vitest"
import { Effect, Metric, Redacted } from "effect"
import { firstEndpoint, reclaim, sweep } from "../../../src/webhooks/delivery/Recovery.ts"
import { returnedBy } from "../../../src/webhooks/delivery/DeliveryLoop/Results.ts"
import { measure } from "../../../src/webhooks/delivery/DeliveryMetrics.ts"
import { pools } from "../../../src/platform/Pools.ts"
import { claimWith, leaseOf, namedOf, recordAll } from "../../support/Claims.ts"
import { holding } from "../../support/Locks.ts"
import { put } from "../../support/Rows.ts"
import { TestServer } from "../../support/TestServer.ts"
import { layerOf } from "./Deliveries.support.ts"
import { openDue, worker } from "./Due.support.ts"

const parked = 2_000
/** Deliveries for one endpoint, enough that a scan by any other index shows, and that the index of the queue has a third level. */
const waiting = 12_000

/**
 * Returns the number of rows that the transaction has read from the tables, by index or not, of entries of the queues' index, those
 * of ended deliveries included, and the number of its searches in indexes. A scan that skips leading columns of an index is a
 * search for each of their values.
 */
const reads = (sql: PgClient.PgClient) =>
  Effect.map(
    sql<{ readonly rows: number }>`
      SELECT (sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) + coalesce(idx_scan, 0))
        + pg_stat_get_xact_tuples_returned('deliveries_open'::regclass))::int AS rows
      FROM pg_stat_xact_user_tables WHERE relname IN ('deliveries', 'endpoint_health', 'webhooks')`,
    ([row]) => row?.rows ?? 0
  )

/** Runs a statement in a transaction; returns the number of its rows and of rows that were read. */
const counted = <A, E, R>(sql: PgClient.PgClient, statement: Effect.Effect<ReadonlyArray<A>, E, R>) =>
  sql.withTransaction(
    Effect.gen(function* () {
      const before = yield* reads(sql)
      const found = yield* statement
      return { found, rows: (yield* reads(sql)) - before }
    })
  )

const claimFor = (sql: PgClient.PgClient, { projectId }: { readonly projectId: string }) =>
  Effect.map(claimWith(sql, { named: [namedOf(projectId)] }), ({ claims }) => claims)

/** Runs statements on a connection with the settings of one of the service's pools. */
const asService = <E, R>(
  { databaseUrl }: TestServer["Service"],
  run: (sql: PgClient.PgClient) => Effect.Effect<void, E, R>,
  { session }: { readonly session: Readonly<Record<string, string>> } = pools.workers
) =>
  Effect.flatMap(PgClient.PgClient, run).pipe(
    Effect.provide(PgClient.layer({ url: Redacted.make(databaseUrl), maxConnections: 1, startupParameters: session }))
  )

layerOf({}, "api")("a claim of deliveries", (it) => {
  it.effect("reads neither parked endpoints nor their deliveries", function* () {
    const server = yield* TestServer
    const { projectId, sql: setUp } = yield* openDue()
    const ids = Array.from({ length: parked }, (_, n) => `parked${n}`)
    const ofEndpoint = ids.map((id) => ({ project_id: projectId, installation_id: id }))
    const health = { failures: 12, strikes: 12, parked_until: "infinity", next_due_at: "now" }
    yield* put(setUp, "installations", ...ids.map((id) => ({ project_id: projectId, id })))
    yield* put(setUp, "webhooks", ...ofEndpoint)
    yield* put(setUp, "endpoint_health", ...ofEndpoint.map((endpoint) => ({ ...endpoint, ...health })))
    yield* setUp`
      INSERT INTO deliveries (project_id, id, installation_id, event_id, available_at, created_at)
      SELECT health.project_id, new_id('dlv', now()), health.installation_id, event_id, now(), now()
      FROM deliveries JOIN endpoint_health health USING (project_id)
      WHERE project_id = ${projectId} AND parked_until IS NOT NULL`
    yield* setUp`ANALYZE deliveries, endpoint_health, webhooks`

    yield* asService(
      server,
      Effect.fnUntraced(function* (sql) {
        const { found, rows } = yield* counted(sql, claimFor(sql, { projectId }))
        assert.strictEqual(found.length, 1)
        assert.isBelow(rows, 20)
      })
    )
  })
})

layerOf({}, "api")("a claim from a table without statistics", (it) => {
  it.effect("reads no delivery beyond those that it leases and the next", function* () {
    const server = yield* TestServer
    const shop = yield* openDue()
    yield* shop.queue(waiting)
    // An index with fewer levels than the one of the queue: without statistics, to sort what it has of the endpoint seems cheaper.
    yield* shop.sql`CREATE INDEX smaller ON deliveries (project_id, installation_id)`
    yield* asService(
      server,
      Effect.fnUntraced(function* (sql) {
        const { found, rows } = yield* counted(sql, claimFor(sql, shop))
        assert.strictEqual(found.length, 4)
        assert.isBelow(rows, 40)
      })
    )
  })
})

layerOf({}, "api")("a record that is planned for an almost empty table", (it) => {
  it.effect("reads no delivery beyond those that it changes", function* () {
    const server = yield* TestServer
    const shop = yield* openDue()
    yield* shop.sql`
      INSERT INTO deliveries (project_id, id, installation_id, event_id, available_at, created_at)
      SELECT project_id, new_id('dlv', now()), 'other' || n, event_id, now(), now()
      FROM deliveries, generate_series(1, 30) n WHERE project_id = ${shop.projectId}`
    const times = { startedAt: 0, finishedAt: 5 }
    yield* asService(
      server,
      Effect.fnUntraced(function* (sql) {
        const claimAndRecord = Effect.gen(function* () {
          const results = (yield* claimFor(sql, shop)).map((claim) => returnedBy(leaseOf(claim), "released", times))
          const { rows } = yield* counted(sql, recordAll(sql, results))
          return { results: results.length, rows }
        })
        assert.strictEqual((yield* claimAndRecord).results, 1)
        yield* shop.queue(waiting)
        const { results, rows } = yield* claimAndRecord
        assert.strictEqual(results, 4)
        assert.isBelow(rows, 40)
        const leased = yield* sql`SELECT FROM deliveries WHERE status = 'delivering'`
        assert.strictEqual(leased.length, 0)
      })
    )
  })
})

layerOf({}, "api")("a takeover beside an endpoint with a long queue", (it) => {
  it.effect("reads no delivery of that queue", function* () {
    const server = yield* TestServer
    const busy = yield* openDue()
    yield* busy.queue(waiting)
    yield* busy.sql`ANALYZE deliveries, endpoint_health`
    const shop = yield* openDue()
    yield* shop.queue(waiting)
    yield* shop.claimed()
    yield* asService(
      server,
      Effect.fnUntraced(function* (sql) {
        const { found, rows } = yield* counted(sql, reclaim(sql, worker, 60_000))
        assert.strictEqual(found.length, 0)
        assert.isBelow(rows, 40)
      }),
      pools.workers
    )
  })
})

layerOf({}, "api")("a queue whose ended deliveries an old snapshot still sees", (it) => {
  it.effect("is read from its first open delivery on, by claims, takeovers and the sweep", function* () {
    const server = yield* TestServer
    const shop = yield* openDue()
    const { projectId, sql: setUp } = shop
    yield* shop.queue(waiting, "1 hour")
    const { release } = yield* holding(
      setUp,
      Effect.andThen(setUp`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ`, setUp`SELECT FROM deliveries LIMIT 1`)
    )
    yield* setUp`
      UPDATE deliveries SET status = 'delivered', finished_at = now(), available_at = NULL WHERE project_id = ${projectId}`
    yield* shop.setHealth("last_success_at = now()")
    yield* sweep(setUp, firstEndpoint)
    yield* shop.created()
    yield* asService(
      server,
      Effect.fnUntraced(function* (sql) {
        const claim = yield* counted(sql, claimFor(sql, shop))
        assert.strictEqual(claim.found.length, 1)
        const takeover = yield* counted(sql, reclaim(sql, worker, 60_000))
        const again = yield* counted(sql, sweep(sql, firstEndpoint))
        for (const { rows } of [claim, takeover, again]) assert.isBelow(rows, 60)
      })
    )
    const measures = yield* Effect.andThen(measure(setUp), Metric.snapshot).pipe(
      Effect.provideService(Metric.MetricRegistry, new Map())
    )
    const oldest = measures.find(({ id }) => id === "database_oldest_snapshot_seconds")
    assert.isAbove(oldest?.type === "Gauge" ? Number(oldest.state.value) : 0, 0)
    yield* release
  })

  it.effect("is found by the sweep, though a delivery was committed long after its due time", function* () {
    const shop = yield* openDue()
    yield* shop.setHealth("open_from = now(), last_success_at = now(), next_due_at = NULL")
    yield* shop.queue(1, "50 seconds")
    assert.lengthOf(yield* shop.claimed(), 0)
    yield* sweep(shop.sql, firstEndpoint)
    assert.lengthOf(yield* shop.claimed(), 2)
  })

  it.effect("is found by the next sweep, though nothing else moves the start of the queue", function* () {
    const shop = yield* openDue()
    yield* shop.setHealth("open_from = now() - interval '10 seconds', next_due_at = NULL")
    const polled = shop.claimed(4, { named: [] })
    assert.lengthOf(yield* polled, 0)
    yield* sweep(shop.sql, firstEndpoint)
    assert.lengthOf(yield* polled, 1)
  })
})
