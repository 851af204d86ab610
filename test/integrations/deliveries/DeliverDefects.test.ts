/** Results that can't be recorded: because of a defect, such as a statement that is always refused, or of a lock. */
import { assert, describe, it } from "../../support/Vitest.ts"
import { Context, Deferred, Effect, Fiber, Layer, Redacted, References } from "effect"
import { DeliveryLoop } from "../../../src/integrations/deliveries/DeliveryLoop.ts"
import { clients, DatabaseUrl } from "../../../src/platform/database/Database.ts"
import { answered } from "../../support/Claims.ts"
import { until, untilRows } from "../../support/Waiting.ts"
import { type Hit, open, receiver, serve, status } from "./Deliveries.support.ts"
import { loopWith } from "./Loop.support.ts"

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
    const loop = yield* loopWith(send).pipe(
      Layer.provide(clients.deliveries),
      Layer.provide(Layer.succeed(DatabaseUrl, Redacted.make(server.databaseUrl))),
      Layer.build
    )
    yield* Effect.orDie(project.sql`
      CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$`)
    yield* Effect.orDie(project.sql`
      CREATE TRIGGER refused BEFORE UPDATE ON deliveries FOR EACH ROW WHEN (NEW.status = 'delivered')
      EXECUTE FUNCTION refuse()`)
    yield* project.created()
    yield* until(() => sent === 1)
    yield* Context.get(loop, DeliveryLoop).drain
    // Its lease ends by the database's clock; then the delivery is sent again.
    assert.deepInclude((yield* project.deliveries())[0], { status: "delivering", attempts: 1 })
  }).pipe(Effect.provideService(References.MinimumLogLevel, "None"), Effect.scoped)
)

describe("a transaction that holds the row of an endpoint", () => {
  it.live("delays no other endpoint, and its own results until it ends", function* () {
    const server = yield* serve()
    for (const code of [200, 410]) {
      const [first, second] = [yield* open(server), yield* open(server)]
      const held: Array<Hit> = []
      const waiting = yield* receiver((hit) => void held.push(hit))
      const healthy = yield* receiver()
      yield* first.subscribe("shop", waiting.url)
      yield* second.subscribe("shop", healthy.url)
      yield* first.created()
      yield* until(() => held.length === 1)
      const ended = yield* Deferred.make<void>()
      const locked = yield* Deferred.make<void>()
      const holder = yield* Effect.forkChild(
        first.sql.withTransaction(
          Effect.gen(function* () {
            for (const table of ["webhooks", "endpoint_health"])
              yield* first.sql`SELECT FROM ${first.sql(table)} WHERE project_id = ${first.projectId} FOR UPDATE`
            yield* Deferred.succeed(locked, undefined)
            yield* Deferred.await(ended)
          })
        )
      )
      yield* Deferred.await(locked)
      for (const hit of held) status(code)(hit, 0)
      for (let n = 1; n <= 3; n++) {
        yield* second.created()
        yield* untilRows(second.deliveries(), (rows) => rows.length === n && rows.every(isDelivered))
      }
      assert.strictEqual((yield* first.deliveries())[0]?.status, "delivering")
      yield* Deferred.succeed(ended, undefined)
      yield* Fiber.join(holder)
      const state = code === 200 ? "delivered" : "dead"
      yield* untilRows(first.deliveries(), (rows) => rows.every((row) => row.status === state))
      assert.strictEqual((yield* first.health("shop")).inFlight, 0)
    }
  })
})
