/** Parking and probing of endpoints that fail (contract §10), at times that the test sets. */
import { assert } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import type { Claim } from "../../../src/integrations/deliveries/DeliveryLoop/Claim.ts"
import { answered, claimWith, namedOf, recordAll, resultWith } from "../../support/Claims.ts"
import { TestServer } from "../../support/TestServer.ts"
import { layerOf, open } from "./Deliveries.support.ts"
import { untilRows } from "../../support/Waiting.ts"

const minute = 60_000
const day = 24 * 60 * minute

/** Opens a project whose webhook `shop` has `deals` due deliveries, without a worker: the test claims and records. */
const openAt = Effect.fnUntraced(function* (deals: number) {
  const server = yield* TestServer
  const project = yield* open(server)
  yield* project.subscribe("shop", "http://127.0.0.1:9/", ["crm.deal.created.v1"])
  for (let n = 0; n < deals; n++) yield* project.created()
  const { projectId, sql } = project
  /** Claims deliveries. The endpoint is named, as after a notice, or found by its row alone. */
  const claimed = (concurrency = 4, named = true) =>
    claimWith(sql, { concurrency, named: named ? [namedOf(projectId, "shop", concurrency)] : [] }).pipe(
      Effect.map(({ claims }) => claims.filter((claim) => claim.projectId === projectId))
    )
  const recorded = (claims: ReadonlyArray<Claim>, outcome = answered(500)) =>
    recordAll(
      sql,
      claims.map((claim) => resultWith(claim, outcome))
    )
  return {
    ...project,
    claimed,
    recorded,
    /** Simulates the passage of time by moving all due times closer. */
    wait: (millis: number) =>
      Effect.orDie(sql`
        WITH passed AS (SELECT ${millis}::float8 * interval '1 millisecond' AS time),
        moved AS (
          UPDATE deliveries SET available_at = available_at - time FROM passed WHERE project_id = ${projectId}
        )
        UPDATE endpoint_health SET parked_until = parked_until - time, resting_until = resting_until - time,
          next_due_at = next_due_at - time
        FROM passed WHERE project_id = ${projectId}`),
    /** Returns the rest of the endpoint's pause in whole seconds. */
    pause: Effect.map(
      Effect.orDie(sql<{ readonly seconds: number | null }>`
        SELECT round(extract(epoch FROM parked_until - now()))::float8 AS seconds
        FROM endpoint_health WHERE project_id = ${projectId}`),
      ([row]) => row?.seconds ?? null
    ),
    /** Claims one delivery and records a failure. */
    failed: Effect.fnUntraced(function* (outcome = answered(500)) {
      const claims = yield* claimed(1)
      assert.strictEqual(claims.length, 1)
      yield* recorded(claims, outcome)
    })
  }
})

layerOf({}, "api")("an endpoint", (it) => {
  it.effect("is parked after ten failures in a row, which a success resets", function* () {
    const shop = yield* openAt(25)
    for (let n = 0; n < 9; n++) yield* shop.failed()
    assert.isNull(yield* shop.pause)
    yield* shop.recorded(yield* shop.claimed(1), answered(200))
    assert.deepInclude(yield* shop.health(), { inFlight: 0, failures: 0 })
    for (let n = 0; n < 9; n++) yield* shop.failed()
    assert.isNull(yield* shop.pause)
    yield* shop.failed()
    assert.strictEqual(yield* shop.pause, 30)
    assert.deepStrictEqual(yield* shop.claimed(), [])
    yield* shop.wait(25_000)
    assert.deepStrictEqual(yield* shop.claimed(), [])
  })

  it.effect("is probed one at a time after pauses that double to 15 minutes, until a success unparks it", function* () {
    const shop = yield* openAt(12)
    for (let n = 0; n < 10; n++) yield* shop.failed()
    for (const pause of [30, 60, 120, 240, 480, 900, 900, 900]) {
      assert.strictEqual(yield* shop.pause, pause)
      yield* shop.wait(pause * 1_000)
      const probe = yield* shop.claimed(4, false)
      assert.strictEqual(probe.length, 1)
      assert.deepStrictEqual(yield* shop.claimed(), [])
      yield* shop.recorded(probe, answered(500))
      assert.deepStrictEqual(yield* shop.claimed(), [])
    }
    yield* shop.wait(15 * minute)
    yield* shop.recorded(yield* shop.claimed(), answered(204))
    assert.deepStrictEqual(yield* shop.health(), { inFlight: 0, failures: 0, failedProbes: 0, parkedUntil: null })
    const claims = yield* shop.claimed()
    assert.strictEqual(claims.length, 4)
    yield* shop.recorded(claims, answered(200))
    assert.strictEqual((yield* shop.health()).inFlight, 0)
  })

  it.effect("is probed for as long as it has deliveries, weeks of failed probes included", function* () {
    const shop = yield* openAt(1)
    for (let n = 0; n < 10; n++) {
      yield* shop.failed()
      yield* shop.wait(minute)
    }
    // A month of probes, 15 minutes apart.
    yield* shop.sql`UPDATE endpoint_health SET failed_probes = 2880 WHERE project_id = ${shop.projectId}`
    yield* shop.wait(day)
    yield* shop.failed()
    assert.strictEqual(yield* shop.pause, 15 * 60)
  })

  it.effect("is not parked by Retry-After", function* () {
    const shop = yield* openAt(5)
    yield* shop.failed(answered(503, 1))
    yield* shop.wait(5_000)
    yield* shop.failed(answered(503, 1))
    assert.isNull(yield* shop.pause)
    yield* shop.wait(1_000)
    assert.strictEqual((yield* shop.claimed()).length, 4)
  })

  it.effect("gets nothing by a claim that had begun before the endpoint was parked", function* () {
    const { claimed, projectId, sql } = yield* openAt(1)
    // Claims in this schema wait for a lock between their snapshot and the lock of the endpoint's row.
    const schema = sql.literal(`"slow_${projectId}"`)
    yield* sql`CREATE SCHEMA ${schema}`
    yield* sql`
      CREATE FUNCTION ${schema}.encode(bytes bytea, format text) RETURNS text LANGUAGE sql AS $$
        SELECT pg_advisory_xact_lock(hashtext('${sql.literal(projectId)}'));
        SELECT pg_catalog.encode(bytes, format)
      $$`
    const locked = yield* Deferred.make<void>()
    const parking = yield* Effect.forkChild(
      sql.withTransaction(
        Effect.gen(function* () {
          yield* sql`SELECT pg_advisory_xact_lock(hashtext(${projectId}))`
          yield* Deferred.succeed(locked, undefined)
          const waiting = sql`
            SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = hashtext(${projectId})::oid AND NOT granted`
          yield* untilRows(Effect.orDie(waiting), (rows) => rows.length === 1)
          yield* sql`UPDATE endpoint_health SET parked_until = 'infinity' WHERE project_id = ${projectId}`
        })
      )
    )
    yield* Deferred.await(locked)
    const claims = sql.withTransaction(
      Effect.andThen(sql`SET LOCAL search_path = ${schema}, public, pg_catalog`, claimed())
    )
    assert.deepStrictEqual(yield* claims, [])
    yield* Fiber.join(parking)
  })
})
