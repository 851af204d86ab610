/** Health of endpoints: of which URL a result says something, parking and probing, and when a webhook is disabled as failing (contract §10). */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import * as fc from "fast-check"
import type { Claim } from "../../../src/integrations/deliveries/DeliveryLoop/Claim.ts"
import type { Failing } from "../../../src/integrations/deliveries/DeliveryLoop/Record.ts"
import { disableFailing, disableGone } from "../../../src/integrations/deliveries/Disabling.ts"
import type { Outcome } from "../../../src/integrations/endpoints/Sender.ts"
import { answered, neverFailing, recordAll, resultWith } from "../../support/Claims.ts"
import { secretKey, TestServer } from "../../support/TestServer.ts"
import { run } from "../../cli/Cli.support.ts"
import { layerOf } from "./Deliveries.support.ts"
import { created, nowhere, openDue } from "./Due.support.ts"
import { changedMeanwhile } from "../../support/Locks.ts"

const minute = 60_000
const [oldUrl, newUrl] = [nowhere, `${nowhere}new`]

/** In seconds. */
const hour = 3_600

/** Opens a project whose webhook `shop` has due deliveries, which is disabled by these terms. */
const openShop = Effect.fnUntraced(function* (deals: number, failing: Failing = neverFailing) {
  const project = yield* openDue(deals)
  const { projectId, sql } = project
  const recorded = (outcomes: ReadonlyArray<readonly [Claim | undefined, Outcome]>) =>
    recordAll(
      sql,
      outcomes.map(([one, outcome]) => resultWith(one ?? assert.fail(), outcome)),
      failing
    )
  const state = Effect.map(
    Effect.orDie(sql<{ readonly failures: number; readonly resting: boolean }>`
      SELECT failures, resting_until IS NOT NULL AS resting FROM endpoint_health WHERE project_id = ${projectId}`),
    ([row]) => row ?? assert.fail()
  )
  return { ...project, recorded, state }
})

layerOf({}, "api")("a result", (it) => {
  it.effect("of an earlier URL changes the delivery alone, and that of the current URL counts beside it", function* () {
    const shop = yield* openShop(5)
    const before = yield* shop.claimed(3)
    assert.strictEqual((yield* shop.configure("shop", newUrl, 1, created)).status, 200)
    yield* shop.recorded([[before[0], answered(503, hour)]])
    assert.deepStrictEqual(yield* shop.state, { failures: 0, resting: false })
    const row = (yield* shop.deliveries()).find(({ id }) => id === before[0]?.id)
    assert.deepInclude(row, { status: "pending", retries: 1 })
    assert.isBelow(Math.abs((row?.availableAt?.getTime() ?? 0) - Date.now()), minute)

    // The earlier URL is gone: the new one gets the delivery.
    yield* shop.recorded([[before[2], answered(410)]])
    const repeated = (yield* shop.deliveries()).find(({ id }) => id === before[2]?.id)
    assert.deepInclude(repeated, { status: "pending", retries: 1 })
    assert.isBelow(Math.abs((repeated?.availableAt?.getTime() ?? 0) - Date.now()), minute)
    assert.deepStrictEqual(yield* shop.webhook(), { enabled: true, version: 2 })

    // In one batch: a failure of the new URL, and a success of the old one, which clears nothing.
    const [after] = yield* shop.claimed(2)
    assert.deepInclude(after, { endpointUrl: newUrl, urlVersion: 2 })
    yield* shop.recorded([
      [after, answered(503, hour)],
      [before[1], answered(200)]
    ])
    assert.deepStrictEqual(yield* shop.state, { failures: 1, resting: true })
    const delivered = (yield* shop.deliveries()).find(({ id }) => id === before[1]?.id)
    assert.strictEqual(delivered?.status, "delivered")
  })

  it.effect("of an attempt from before the webhook was enabled again changes the delivery alone", function* () {
    const { databaseUrl } = yield* TestServer
    for (const by of ["the owner", "an operator"] as const) {
      const { sql, ...shop } = yield* openShop(2)
      const [first = assert.fail(), second = assert.fail()] = yield* shop.claimed(2)
      yield* disableGone(sql, first)
      yield* shop.recorded([[first, answered(410)]])
      assert.deepStrictEqual(yield* shop.webhook(), { enabled: false, version: 2 })
      if (by === "the owner") {
        assert.strictEqual((yield* shop.configure("shop", oldUrl, 2, created)).status, 200)
      } else {
        const command = ["webhooks", "enable", "--project", shop.projectId, "--installation", "shop"]
        const { status } = yield* run(command, { env: { DATABASE_URL: databaseUrl, SECRET_KEY: secretKey } })
        assert.strictEqual(status, 0)
      }
      yield* disableGone(sql, second)
      yield* shop.recorded([[second, answered(410)]])
      assert.deepStrictEqual(yield* shop.webhook(), { enabled: true, version: 3 })
      assert.deepStrictEqual(yield* shop.state, { failures: 0, resting: false })
      yield* shop.created()
      assert.deepInclude((yield* shop.claimed(1))[0], { endpointUrl: oldUrl, urlVersion: 2 })
    }
  })

  it.effect("disables no webhook that was configured since", function* () {
    const failing = { forMillis: 0, quietMillis: minute, attempts: 1 }
    const { sql, ...shop } = yield* openShop(2, failing)
    const [first] = yield* shop.claimed(1)
    assert.deepInclude((yield* shop.recorded([[first, answered(500)]]))[0], { isFailing: true })
    assert.strictEqual((yield* shop.configure("shop", oldUrl, 1, created)).status, 200)
    yield* disableFailing(sql, first ?? assert.fail(), failing)
    assert.deepStrictEqual(yield* shop.webhook(), { enabled: true, version: 1 })
    assert.strictEqual((yield* shop.configure("shop", newUrl, 1, created)).status, 200)
    yield* disableGone(sql, first ?? assert.fail())
    assert.deepStrictEqual(yield* shop.webhook(), { enabled: true, version: 2 })

    const [second] = yield* shop.claimed(1)
    assert.deepInclude((yield* shop.recorded([[second, answered(500)]]))[0], { isFailing: true })
    yield* disableFailing(sql, second ?? assert.fail(), failing)
    assert.deepStrictEqual(yield* shop.webhook(), { enabled: false, version: 3 })
  })
})

layerOf({}, "api")("an endpoint", (it) => {
  const failing = { forMillis: 10 * minute, quietMillis: 5 * minute, attempts: 5 }

  it.effect(
    "has failed for too long if enough attempts failed over the period, and no two were far apart",
    function* () {
      const shop = yield* openShop(1, failing)
      yield* shop.queue(500)
      /** Simulates the passage of time; a pause or a rest of the endpoint is over. */
      const wait = (minutes: number) =>
        shop.setHealth(
          ["failing_since", "last_failed_at"]
            .map((column) => `${column} = ${column} - interval '${minutes} minutes'`)
            .concat("parked_until = NULL", "resting_until = NULL")
            .join()
        )
      const step = fc.record({ minutes: fc.constantFrom(1, 3, 4, 6), succeeds: fc.integer({ min: 0, max: 9 }) })
      const runs = fc.sample(fc.array(step, { minLength: 4, maxLength: 12 }), { numRuns: 15, seed: 30 })
      let disabled = 0
      for (const steps of runs) {
        yield* wait(0)
        yield* shop.recorded([[(yield* shop.claimed(1))[0], answered(200)]])
        let failures: ReadonlyArray<number> = []
        let time = 0
        for (const { minutes, succeeds } of steps) {
          time += minutes
          yield* wait(minutes)
          const outcome = answered(succeeds === 0 ? 200 : 500)
          const [found] = yield* shop.recorded([[(yield* shop.claimed(1))[0], outcome]])
          const [first = time] = failures
          if (succeeds === 0) failures = []
          else if (time - (failures.at(-1) ?? time) > 5) failures = [time]
          else failures = [...failures, time]
          const isFailing = succeeds > 0 && failures.length >= failing.attempts && time - first >= 10
          if (isFailing) disabled++
          assert.strictEqual(found?.isFailing ?? false, isFailing, JSON.stringify({ steps, time }))
        }
      }
      assert.isAbove(disabled, 3)
    }
  )
})

const day = 24 * 60 * minute

/** Opens a project whose webhook `shop` has due deliveries. */
const openAt = Effect.fnUntraced(function* (deals: number) {
  const project = yield* openDue(deals)
  const { claimed, projectId, recorded, sql } = project
  return {
    ...project,
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
      const probe = yield* shop.claimed(4, { named: [] })
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
    yield* shop.setHealth("failed_probes = 2880")
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
    const { claimed, projectId, setHealth, sql } = yield* openAt(1)
    // Claims in this schema wait for a lock between their snapshot and the lock of the endpoint's row.
    const schema = sql.literal(`"slow_${projectId}"`)
    yield* sql`CREATE SCHEMA ${schema}`
    yield* sql`
      CREATE FUNCTION ${schema}.encode(bytes bytea, format text) RETURNS text LANGUAGE sql AS $$
        SELECT pg_advisory_xact_lock(hashtext('${sql.literal(projectId)}'));
        SELECT pg_catalog.encode(bytes, format)
      $$`
    const claims = yield* changedMeanwhile(
      sql,
      projectId,
      sql.withTransaction(Effect.andThen(sql`SET LOCAL search_path = ${schema}, public, pg_catalog`, claimed())),
      setHealth("parked_until = 'infinity'")
    )
    assert.deepStrictEqual(claims, [])
  })
})
