/** Health of endpoints: which results count, parking and probing, and when a webhook is disabled as failing (contract §10). */
import { assert } from "@effect/vitest"
import { Effect, Logger, Metric } from "effect"
import * as fc from "fast-check"
import type { Claim } from "../../../src/webhooks/delivery/Attempt.ts"
import { disable } from "../../../src/webhooks/delivery/Disabling.ts"
import { strikesToSuspect } from "../../../src/webhooks/Endpoint.ts"
import type { AttemptOutcome } from "../../../src/webhooks/address/Sender.ts"
import { answered, recordAll, resultWith } from "../../support/Claims.ts"
import { secretKey, TestServer } from "../../support/TestServer.ts"
import { run } from "../../cli/Cli.support.ts"
import { MetricsEnabled } from "../../../src/telemetry/Telemetry.ts"
import { layerOf } from "./Deliveries.support.ts"
import { created, nowhere, openDue } from "./Due.support.ts"
import { changedMeanwhile, holding } from "../../support/Locks.ts"

const minute = 60_000
const day = 24 * 60 * minute
const [oldUrl, newUrl] = [nowhere, `${nowhere}new`]

/** In seconds. */
const hour = 3_600

/** Opens a project whose webhook `shop` has due deliveries, which is disabled after this time. */
const openShop = Effect.fnUntraced(function* (deals: number, disableAfterMillis?: number) {
  const project = yield* openDue(deals)
  const { projectId, sql } = project
  const recorded = (outcomes: ReadonlyArray<readonly [Claim | undefined, AttemptOutcome]>) =>
    recordAll(
      sql,
      outcomes.map(([one, outcome]) => resultWith(one ?? assert.fail(), outcome)),
      disableAfterMillis
    )
  const state = Effect.map(
    Effect.orDie(sql<{ readonly failures: number; readonly resting: boolean }>`
      SELECT failures, resting_until IS NOT NULL AS resting FROM endpoint_health WHERE project_id = ${projectId}`),
    ([row]) => row ?? assert.fail()
  )
  return { ...project, recorded, state }
})

layerOf({}, "api")("a result", (it) => {
  it.effect(
    "of an earlier version changes the delivery alone, and one of the current version counts beside it",
    function* () {
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
      assert.deepInclude(after, { endpointUrl: newUrl, version: 2 })
      yield* shop.recorded([
        [after, answered(503, hour)],
        [before[1], answered(200)]
      ])
      assert.deepStrictEqual(yield* shop.state, { failures: 1, resting: true })
      const delivered = (yield* shop.deliveries()).find(({ id }) => id === before[1]?.id)
      assert.strictEqual(delivered?.status, "delivered")
    }
  )

  it.effect("of an attempt from before the webhook was enabled again changes the delivery alone", function* () {
    const { databaseUrl } = yield* TestServer
    for (const by of ["the owner", "an operator"] as const) {
      const { sql, ...shop } = yield* openShop(2)
      const [first = assert.fail(), second = assert.fail()] = yield* shop.claimed(2)
      yield* disable(sql, [first], "gone", 0)
      yield* shop.recorded([[first, answered(410)]])
      assert.deepStrictEqual(yield* shop.webhook(), { enabled: false, version: 2 })
      if (by === "the owner") {
        assert.strictEqual((yield* shop.configure("shop", oldUrl, 2, created)).status, 200)
      } else {
        const command = ["webhooks", "enable", "--project", shop.projectId, "--installation", "shop"]
        const { status } = yield* run(command, { env: { DATABASE_URL: databaseUrl, SECRET_KEY: secretKey } })
        assert.strictEqual(status, 0)
      }
      yield* disable(sql, [second], "gone", 0)
      yield* shop.recorded([[second, answered(410)]])
      assert.deepStrictEqual(yield* shop.webhook(), { enabled: true, version: 3 })
      assert.deepStrictEqual(yield* shop.state, { failures: 0, resting: false })
      yield* shop.created()
      assert.deepInclude((yield* shop.claimed(1))[0], { endpointUrl: oldUrl, version: 3 })
    }
  })

  it.effect("disables no webhook that was configured since", function* () {
    const { sql, ...shop } = yield* openShop(12, 0)
    const tenFailures = Effect.gen(function* () {
      for (let n = 1; n < 10; n++) yield* shop.setHealth("failures = failures + 1, failing_since = now()")
      const [claim = assert.fail()] = yield* shop.claimed(1)
      assert.deepInclude((yield* shop.recorded([[claim, answered(500)]]))[0], { hasFailedTooLong: true })
      yield* shop.setHealth("parked_until = NULL")
      return claim
    })
    const first = yield* tenFailures
    assert.strictEqual((yield* shop.configure("shop", newUrl, 1, created)).status, 200)
    const second = yield* tenFailures
    const lines: Array<string> = []
    const measures = yield* Effect.gen(function* () {
      for (const reason of ["gone", "failing"] as const) yield* disable(sql, [first], reason, 0)
      assert.deepStrictEqual(yield* shop.webhook(), { enabled: true, version: 2 })
      yield* disable(sql, [second], "failing", 0)
      assert.deepStrictEqual(yield* shop.webhook(), { enabled: false, version: 3 })
      yield* disable(sql, [second], "failing", 0)
      return yield* Metric.snapshot
    }).pipe(
      Effect.provide(Logger.layer([Logger.make(({ message }) => void lines.push(String(message)))])),
      Effect.provideService(MetricsEnabled, true),
      Effect.provideService(Metric.MetricRegistry, new Map())
    )
    // Each disabling is in the log, the metrics and the audit, once.
    assert.deepStrictEqual(lines, ["A webhook was disabled"])
    assert.deepStrictEqual(
      measures.map(({ attributes, id, state }) => [
        id,
        attributes?.["reason"],
        "count" in state && Number(state.count)
      ]),
      [["webhook_disabled_total", "failing", 1]]
    )
    const entries = sql`SELECT actor, action, target, detail FROM audit_entries WHERE project_id = ${shop.projectId}`
    assert.deepStrictEqual(yield* Effect.orDie(entries), [
      { actor: "service", action: "webhook.disable", target: "shop", detail: { reason: "failing" } }
    ])
  })

  it.effect("disables no webhook that is locked, and the others beside it", function* () {
    const [shop, neighbour] = [yield* openShop(1), yield* openShop(1)]
    const claims = [...(yield* shop.claimed(1)), ...(yield* neighbour.claimed(1))]
    for (const table of ["webhooks", "endpoint_health"]) {
      const { release } = yield* holding(
        shop.sql,
        shop.sql`SELECT FROM ${shop.sql(table)} WHERE project_id = ${shop.projectId} FOR UPDATE`
      )
      const locked = yield* disable(shop.sql, claims, "gone", 0)
      assert.deepStrictEqual(
        locked.map(({ projectId }) => projectId),
        [shop.projectId]
      )
      assert.deepStrictEqual(yield* neighbour.webhook(), { enabled: false, version: 2 })
      yield* release
    }
    assert.deepStrictEqual(yield* disable(shop.sql, claims, "gone", 0), [])
    assert.deepStrictEqual(yield* shop.webhook(), { enabled: false, version: 2 })
  })
})

layerOf({}, "api")("an endpoint", (it) => {
  it.effect("has failed for too long after 5 days in which ten attempts failed and none succeeded", function* () {
    const fiveDays = 5 * day
    const shop = yield* openShop(1, fiveDays)
    yield* shop.queue(200)
    /** Simulates the passage of time; a pause of the endpoint is over. */
    const wait = (days: number) =>
      shop.setHealth(`failing_since = failing_since - interval '${days} days', parked_until = NULL`)
    const step = fc.record({ days: fc.constantFrom(0, 0, 0, 1, 2), succeeds: fc.integer({ min: 0, max: 12 }) })
    const runs = fc.sample(fc.array(step, { minLength: 8, maxLength: 20 }), { numRuns: 12, seed: 30 })
    let disabled = 0
    for (const steps of runs) {
      yield* wait(0)
      yield* shop.recorded([[(yield* shop.claimed(1))[0], answered(200)]])
      let failures: ReadonlyArray<number> = []
      let time = 0
      for (const { days, succeeds } of steps) {
        time += days
        yield* wait(days)
        const outcome = answered(succeeds === 0 ? 200 : 500)
        const [found] = yield* shop.recorded([[(yield* shop.claimed(1))[0], outcome]])
        failures = succeeds === 0 ? [] : [...failures, time]
        const hasFailed = failures.length >= 10 && time - (failures[0] ?? time) >= 5
        if (hasFailed) disabled++
        assert.strictEqual(found?.hasFailedTooLong ?? false, hasFailed, JSON.stringify({ steps, time }))
      }
    }
    assert.isAbove(disabled, 3)
  })
})

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
  it.effect("is suspect from the same number of strikes on in its row and in the process", function* () {
    const { projectId, setHealth, sql } = yield* openShop(0)
    const isSuspect = Effect.map(
      Effect.orDie(
        sql<{ readonly suspect: boolean }>`SELECT suspect FROM endpoint_health WHERE project_id = ${projectId}`
      ),
      ([row]) => row?.suspect
    )
    for (const [strikes, expected] of [
      [strikesToSuspect - 1, false],
      [strikesToSuspect, true]
    ] as const) {
      yield* setHealth(`strikes = ${strikes}`)
      assert.strictEqual(yield* isSuspect, expected)
    }
  })

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
