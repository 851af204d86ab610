/** The gauges of the queue of deliveries, and the endpoints that are behind. */
import { assert } from "../../support/Vitest.ts"
import { Effect } from "effect"
import { countPending } from "../../../src/integrations/deliveries/DeliveryMetrics.ts"
import { listDue } from "../../../src/integrations/endpoints/WebhookList.ts"
import { TestServer } from "../../support/TestServer.ts"
import { layerOf, open, receiver } from "./Deliveries.support.ts"

layerOf({}, "api")("the queue of deliveries", (it) => {
  it.effect("has its length, and the wait of the oldest due delivery, whatever its endpoint does", function* () {
    const { created, deliveries, projectId, setHealth, sql, subscribe } = yield* open(yield* TestServer)
    yield* subscribe("shop", (yield* receiver()).url)
    for (const _ of [1, 2, 3, 4]) yield* created()
    const oldest = Effect.map(Effect.orDie(listDue(sql, 1)), ([first]) => ({
      hours: Math.round((first?.oldestSeconds ?? 0) / 3_600),
      behind: first?.behind ?? 0,
      condition: first?.condition
    }))
    const changes = [
      sql`available_at = NULL, finished_at = now(), status = 'delivered'`,
      sql`available_at = now() - interval '2 hours'`,
      sql`available_at = now() - interval '5 minutes'`,
      sql`available_at = now() + interval '2 hours'`
    ]
    for (const [n, { id }] of (yield* deliveries()).entries())
      yield* Effect.orDie(
        sql`UPDATE deliveries SET ${changes[n] ?? assert.fail()} WHERE project_id = ${projectId} AND id = ${id}`
      )
    assert.deepStrictEqual(yield* Effect.orDie(countPending(sql, 100)), [{ pending: 3 }])

    // No worker has marked the endpoint as due; a slow one has its concurrency in flight; a pause explains a wait while it lasts.
    const late = { hours: 2, behind: 1, condition: "behind" } as const
    const cases = [
      ["next_due_at = NULL", late],
      ["next_due_at = now(), saturated = true, last_success_at = now()", late],
      ["failures = 1, strikes = 1, saturated = false", late],
      ["failures = 10, parked_until = now() + interval '1 hour'", { ...late, behind: 0, condition: "parked" }],
      ["parked_until = now() - interval '2 minutes'", late],
      ["parked_until = NULL, resting_until = now() + interval '1 hour'", { ...late, behind: 0, condition: "resting" }],
      ["resting_until = now() - interval '2 minutes'", late]
    ] as const
    for (const [health, expected] of cases) {
      yield* setHealth(health)
      assert.deepStrictEqual(yield* oldest, expected, health)
    }
    yield* Effect.orDie(sql`
      UPDATE deliveries SET available_at = now() + interval '1 hour'
      WHERE project_id = ${projectId} AND available_at IS NOT NULL`)
    assert.deepStrictEqual(yield* oldest, { hours: 0, behind: 0, condition: undefined })
  })

  it.effect("is led by the endpoints that are behind, however long others have waited", function* () {
    const { created, projectId, sql, subscribe } = yield* open(yield* TestServer, ["away", "slow"])
    const { url } = yield* receiver()
    for (const name of ["away", "slow"]) yield* subscribe(name, url)
    yield* created()
    for (const [name, since] of [
      ["away", "2 hours"],
      ["slow", "1 hour"]
    ] as const)
      yield* Effect.orDie(sql`
        UPDATE deliveries SET available_at = now() - ${since}::interval
        WHERE project_id = ${projectId} AND installation_id = ${name}`)
    yield* Effect.orDie(sql`
      UPDATE endpoint_health SET failures = 10, parked_until = now() + interval '1 hour'
      WHERE project_id = ${projectId} AND installation_id = 'away'`)
    const found = yield* Effect.orDie(listDue(sql, 10))
    assert.deepStrictEqual(
      found.map(({ behind, condition, dueSeconds, name, oldestSeconds }) => [
        name,
        condition,
        behind,
        Math.round(dueSeconds / 3_600),
        Math.round(oldestSeconds / 3_600)
      ]),
      [
        ["slow", "behind", 1, 1, 2],
        ["away", "parked", 1, 2, 2]
      ]
    )
  })
})
