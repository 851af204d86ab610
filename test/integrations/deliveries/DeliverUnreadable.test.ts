/** Webhooks whose secret the service's `SECRET_KEY` does not open: they affect no other webhook. */
import { assert, describe, it } from "../../support/Vitest.ts"
import { Effect } from "effect"
import { open, receiver, serve, verifies } from "./Deliveries.support.ts"
import { until, untilRows } from "../../support/Waiting.ts"

const otherKey = Buffer.alloc(32, 8).toString("base64")

describe("a webhook whose secret can't be opened", () => {
  it.live("fails on the schedule until its deliveries are dead, and leaves nothing in flight", function* () {
    const old = yield* serve({}, "api")
    const project = yield* open(old)
    const shop = yield* receiver()
    // Started before anything is stored: afterwards its key would be refused.
    yield* serve({ DATABASE_URL: old.databaseUrl, SECRET_KEY: otherKey }, "worker")
    yield* project.subscribe("shop", shop.url)
    yield* project.created()
    yield* untilRows(project.deliveries(), ([delivery]) => delivery?.status === "dead")
    const [delivery] = yield* project.deliveries()
    assert.deepInclude(delivery, { status: "dead", attempts: 3 })
    assert.strictEqual((yield* project.health()).inFlight, 0)
    assert.strictEqual(shop.hits.length, 0)
  })

  it.live("occupies no slot", function* () {
    const old = yield* serve({}, "api")
    const names = Array.from({ length: 33 }, (_, n) => `shop${n}`)
    const project = yield* open(old, names)
    const shop = yield* receiver()
    const server = yield* serve({ DATABASE_URL: old.databaseUrl, SECRET_KEY: otherKey })
    for (const name of names) yield* project.subscribe(name, shop.url)
    for (let n = 0; n < 4; n++) yield* project.created()

    yield* Effect.sleep("2 seconds")
    const neighbour = yield* open(server)
    const healthy = yield* receiver()
    yield* neighbour.subscribe("shop", healthy.url)
    yield* neighbour.created()
    yield* until(() => healthy.hits.length === 1)
  })
})

it.live("a webhook whose older secret can't be opened is signed with the current one", function* () {
  const project = yield* open(yield* serve())
  const shop = yield* receiver()
  yield* project.subscribe("shop", shop.url)
  const current = yield* project.rotate("shop", 1)
  yield* project.sql`UPDATE webhook_secrets SET sealed = sha512(sealed) WHERE retires_at <> 'infinity'`
  yield* project.created()
  yield* project.finished
  assert.deepStrictEqual(
    shop.hits.map((hit) => verifies(current, hit)),
    [true]
  )
})
