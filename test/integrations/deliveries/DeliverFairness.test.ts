/** Fairness: no endpoint gets more than its share, and none waits for another (contract §10). */
import { assert, describe, it } from "../../support/Vitest.ts"
import { Effect } from "effect"
import { hang, open, receiver, serve, slowly } from "./Deliveries.support.ts"
import { until } from "../../support/Waiting.ts"

const created = ["crm.deal.created.v1"]

const many = <A>(count: number, run: () => Effect.Effect<A>) =>
  Effect.forEach(Array.from({ length: count }), run, { concurrency: 20, discard: true })

describe("two servers on one database", () => {
  it.live("share the limit of attempts in flight to an endpoint, and deliver each event once", function* () {
    const environment = { WEBHOOK_ENDPOINT_CONCURRENCY: "3" }
    const one = yield* serve(environment)
    const two = yield* serve({ ...environment, DATABASE_URL: one.databaseUrl })
    const [shop, other] = [yield* receiver(slowly(15)), yield* receiver(slowly(5))]
    const project = yield* open(one, ["shop", "other"])
    yield* project.subscribe("shop", shop.url, created)
    yield* project.subscribe("other", other.url, created)
    const { token } = project
    const json = { title: "By the other" }
    const create = (n: number) =>
      two.send({ method: "POST", path: "/api/v1/developer/crm/deals", token, key: `by-two-${n}`, json })
    yield* Effect.all(
      [
        many(40, () => project.create({ title: "By the one" })),
        Effect.forEach(Array.from({ length: 40 }), (_, n) => create(n))
      ],
      { concurrency: 2 }
    )
    yield* project.finished
    const rows = yield* project.deliveries()
    assert.strictEqual(rows.length, 160)
    for (const { attempts, status } of rows) assert.deepStrictEqual([status, attempts], ["delivered", 1])
    for (const { hits, mostOpen } of [shop, other]) {
      assert.strictEqual(new Set(hits.map(({ headers }) => headers["webhook-id"])).size, 80)
      assert.strictEqual(hits.length, 80)
      assert.isAtMost(mostOpen(), 3)
    }
    assert.strictEqual(shop.mostOpen(), 3)
    for (const name of ["shop", "other"]) {
      assert.deepInclude(yield* project.health(name), { inFlight: 0, failures: 0 })
    }
  })
})

describe("an endpoint that hangs", () => {
  // Longer than any wait of the tests.
  const longTimeout = { WEBHOOK_TIMEOUT: "60s" }

  it.live("with 200 queued deliveries has four in flight and delays no other endpoint", function* () {
    const server = yield* serve(longTimeout)
    const [stuck, healthy] = [yield* receiver(hang), yield* receiver()]
    const [project, neighbour] = [yield* open(server, ["stuck", "healthy"]), yield* open(server)]
    yield* project.subscribe("stuck", stuck.url, created)
    yield* many(200, () => project.create({ title: "Queued" }))
    yield* until(() => stuck.hits.length === 4)
    yield* project.subscribe("healthy", healthy.url, created)
    yield* neighbour.subscribe("shop", healthy.url, created)
    for (let n = 1; n <= 10; n++) {
      yield* project.created()
      yield* neighbour.created()
      yield* until(() => healthy.hits.length === 2 * n)
    }
    assert.strictEqual(stuck.hits.length, 4)
    assert.strictEqual((yield* project.health("stuck")).inFlight, 4)
    assert.strictEqual((yield* project.health("healthy")).inFlight, 0)
  })

  it.live("together with 99 more delays no other endpoint through timeouts, retries and parking", function* () {
    const server = yield* serve({ WEBHOOK_TIMEOUT: "500ms", WEBHOOK_RETRY_SCHEDULE: "100ms,100ms,100ms,1h" })
    const [stuck, healthy] = [yield* receiver(hang), yield* receiver()]
    const names = Array.from({ length: 100 }, (_, n) => `stuck${n}`)
    const [project, neighbour] = [yield* open(server, names), yield* open(server)]
    yield* Effect.forEach(names, (name) => project.subscribe(name, stuck.url, created), { concurrency: 20 })
    yield* neighbour.subscribe("shop", healthy.url, created)
    yield* many(6, () => project.create({ title: "Queued" }))
    yield* until(() => stuck.hits.length >= 400)
    // Several times the duration of an attempt, while endpoints become suspect and are parked.
    let n = 0
    while (stuck.hits.length < 1_000) {
      yield* neighbour.created()
      n++
      yield* until(() => healthy.hits.length === n)
    }
    assert.isAtMost(stuck.mostOpen(), 400)
    yield* neighbour.finished
    for (const { attempts } of yield* neighbour.deliveries()) assert.strictEqual(attempts, 1)
  })
})
