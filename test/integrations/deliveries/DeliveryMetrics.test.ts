/** The gauges of the queue of deliveries. */
import { assert } from "../../support/Vitest.ts"
import { Effect } from "effect"
import { measureQueue } from "../../../src/integrations/deliveries/DeliveryMetrics.ts"
import { TestServer } from "../../support/TestServer.ts"
import { layerOf, open, receiver } from "./Deliveries.support.ts"

layerOf({}, "api")("the queue of deliveries", (it) => {
  it.effect("has its length, and the wait of the oldest due delivery of endpoints that may get one", function* () {
    const { created, deliveries, projectId, setHealth, sql, subscribe } = yield* open(yield* TestServer)
    yield* subscribe("shop", (yield* receiver()).url)
    for (const _ of [1, 2, 3, 4]) yield* created()
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
    yield* setHealth("next_due_at = now() - interval '2 hours'")
    const queue = Effect.map(Effect.orDie(measureQueue(sql, 100)), ([row = assert.fail()]) => row)
    assert.deepInclude(yield* queue, { depth: 3 })
    assert.approximately((yield* queue).seconds, 7_200, 600)
    // Deliveries to a parked endpoint do not count as late.
    yield* setHealth("parked_until = now() + interval '1 day'")
    assert.deepStrictEqual(yield* queue, { depth: 3, seconds: 0 })
  })
})
