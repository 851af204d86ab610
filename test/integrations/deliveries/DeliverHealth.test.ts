/** Health of endpoints: of which URL a result says something, and when a webhook is disabled as failing (contract §10). */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import * as fc from "fast-check"
import type { Claim } from "../../../src/integrations/deliveries/DeliveryLoop/Claim.ts"
import type { Failing } from "../../../src/integrations/deliveries/DeliveryLoop/Record.ts"
import { disableFailing, disableGone } from "../../../src/integrations/deliveries/Disabling.ts"
import type { Outcome } from "../../../src/integrations/endpoints/Sender.ts"
import { answered, claimWith, namedOf, neverFailing, recordAll, resultWith } from "../../support/Claims.ts"
import { secretKey, TestServer } from "../../support/TestServer.ts"
import { run } from "../../cli/Cli.support.ts"
import { layerOf, open } from "./Deliveries.support.ts"

const minute = 60_000
const [oldUrl, newUrl] = ["http://127.0.0.1:9/old", "http://127.0.0.1:9/new"]
const created = ["crm.deal.created.v1"]

/** In seconds. */
const hour = 3_600

/** Opens a project whose webhook `shop` has due deliveries, without a worker: the test claims and records. */
const openShop = Effect.fnUntraced(function* (deals: number, failing: Failing = neverFailing) {
  const server = yield* TestServer
  const project = yield* open(server)
  yield* project.subscribe("shop", oldUrl, created)
  for (let n = 0; n < deals; n++) yield* project.created()
  const { projectId, sql } = project
  const claimed = (count = 1) =>
    claimWith(sql, { concurrency: count, named: [namedOf(projectId, "shop", count)] }).pipe(
      Effect.map(({ claims }) => claims.filter((one) => one.projectId === projectId))
    )
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
  return { ...project, claimed, recorded, state }
})

layerOf({}, "api")("a result", (it) => {
  it.effect("of an earlier URL changes the delivery alone, and that of the current URL counts beside it", function* () {
    const shop = yield* openShop(4)
    const before = yield* shop.claimed(2)
    assert.strictEqual((yield* shop.configure("shop", newUrl, 1, created)).status, 200)
    yield* shop.recorded([[before[0], answered(503, hour)]])
    assert.deepStrictEqual(yield* shop.state, { failures: 0, resting: false })
    const row = (yield* shop.deliveries()).find(({ id }) => id === before[0]?.id)
    assert.deepInclude(row, { status: "pending", retries: 1 })
    assert.isBelow(Math.abs((row?.availableAt?.getTime() ?? 0) - Date.now()), minute)

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
      assert.deepInclude((yield* shop.claimed())[0], { endpointUrl: oldUrl, urlVersion: 2 })
    }
  })

  it.effect("disables no webhook that was configured since", function* () {
    const failing = { forMillis: 0, quietMillis: minute, attempts: 1 }
    const { sql, ...shop } = yield* openShop(2, failing)
    const [first] = yield* shop.claimed()
    assert.deepInclude((yield* shop.recorded([[first, answered(500)]]))[0], { isFailing: true })
    assert.strictEqual((yield* shop.configure("shop", oldUrl, 1, created)).status, 200)
    yield* disableFailing(sql, first ?? assert.fail(), failing)
    assert.deepStrictEqual(yield* shop.webhook(), { enabled: true, version: 1 })
    assert.strictEqual((yield* shop.configure("shop", newUrl, 1, created)).status, 200)
    yield* disableGone(sql, first ?? assert.fail())
    assert.deepStrictEqual(yield* shop.webhook(), { enabled: true, version: 2 })

    const [second] = yield* shop.claimed()
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
      const { projectId, sql, ...shop } = yield* openShop(1, failing)
      yield* sql`
      INSERT INTO deliveries (project_id, id, installation_id, event_id, available_at, created_at)
      SELECT project_id, new_id('dlv', now()), installation_id, event_id, now(), now()
      FROM deliveries, generate_series(1, 500) WHERE project_id = ${projectId}`
      /** Simulates the passage of time; a pause or a rest of the endpoint is over. */
      const wait = (minutes: number) => sql`
      UPDATE endpoint_health SET failing_since = failing_since - ${minutes}::int * interval '1 minute',
        last_failed_at = last_failed_at - ${minutes}::int * interval '1 minute', parked_until = NULL, resting_until = NULL
      WHERE project_id = ${projectId}`
      const step = fc.record({ minutes: fc.constantFrom(1, 3, 4, 6), succeeds: fc.integer({ min: 0, max: 9 }) })
      const runs = fc.sample(fc.array(step, { minLength: 4, maxLength: 12 }), { numRuns: 15, seed: 30 })
      let disabled = 0
      for (const steps of runs) {
        yield* wait(0)
        yield* shop.recorded([[(yield* shop.claimed())[0], answered(200)]])
        let failures: ReadonlyArray<number> = []
        let time = 0
        for (const { minutes, succeeds } of steps) {
          time += minutes
          yield* wait(minutes)
          const outcome = answered(succeeds === 0 ? 200 : 500)
          const [found] = yield* shop.recorded([[(yield* shop.claimed())[0], outcome]])
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
