/** Fairness: no endpoint gets more than its share, and none waits for another (contract §10). */
import { assert, describe, it } from "../../support/Vitest.ts"
import { Effect } from "effect"
import { hang, layerOf, open, receiver, serve, slowly } from "./Deliveries.support.ts"
import { until } from "../../support/Waiting.ts"
import { ProjectId } from "../../../src/api/schema/Ids.ts"
import type { Room } from "../../../src/webhooks/delivery/DeliveryLoop/Visits.ts"
import { claimWith, namedOf, roomsOf } from "../../support/Claims.ts"
import { holding } from "../../support/Locks.ts"
import { openDue } from "./Due.support.ts"

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

const shops = ["shop1", "shop2", "shop3"]

/** Creates three endpoints with ten due deliveries each; returns a claim that counts the leases of each endpoint. */
const scene = Effect.fnUntraced(function* (isPoll = true) {
  const project = yield* openDue(10, shops)
  const claimFor = (healthy: number, width: number) =>
    Effect.map(project.claimed(width, { concurrency: 4, rooms: roomsOf(healthy, 1), isPoll }), (claims) =>
      shops.map((shop) => claims.filter((one) => one.installationId === shop).length)
    )
  return { ...project, claimFor }
})

/** Two projects: of `many` three endpoints are due for an hour, of `few` one for a second. No other endpoint is due. */
const twoProjects = Effect.fnUntraced(function* (strikes: number) {
  const many = yield* scene()
  const few = yield* scene()
  const { sql } = many
  yield* sql`UPDATE endpoint_health SET next_due_at = NULL`
  const due = (projectId: string, ids: ReadonlyArray<string>, since: string) => sql`
    UPDATE endpoint_health SET strikes = ${strikes}::int, next_due_at = now() - ${since}::interval
    WHERE project_id = ${projectId} AND installation_id = ANY(${ids}::text[])`
  yield* due(many.projectId, shops, "1 hour")
  yield* due(few.projectId, ["shop1"], "1 second")
  /** Claims what is due. Returns the number of leases of each project. */
  const claimed = (free: number, holders: Room["holders"] = []) => {
    const room = { ...roomsOf(free, free).healthy, holders }
    return Effect.map(claimWith(sql, { rooms: { healthy: room, suspect: room } }), ({ claims }) =>
      [many, few].map(({ projectId }) => claims.filter((one) => one.projectId === projectId).length)
    )
  }
  return { claimed, many: ProjectId.make(many.projectId) }
})

layerOf({}, "api")("a claim with few slots", (it) => {
  for (const [pool, strikes] of [
    ["healthy", 0],
    ["suspect", 3]
  ] as const) {
    it.effect(`has projects take turns, however many ${pool} endpoints of one are due for longer`, function* () {
      const { claimed } = yield* twoProjects(strikes)
      assert.deepStrictEqual(yield* claimed(1), [1, 0])
      assert.deepStrictEqual(yield* claimed(2), [1, 1])
    })

    it.effect(
      `leases no delivery of a project that holds its share of ${pool} slots, and fills those of the others`,
      function* () {
        const { claimed, many } = yield* twoProjects(strikes)
        assert.deepStrictEqual(yield* claimed(2, [{ projectId: many, room: 0 }]), [0, strikes === 0 ? 2 : 1])
        assert.deepStrictEqual(yield* claimed(3, [{ projectId: many, room: 1 }]), strikes === 0 ? [1, 2] : [1, 0])
      }
    )
  }

  it.effect("returns a named endpoint whose row is locked, so that it is visited again", function* () {
    const { projectId, sql } = yield* scene()
    const claimed = claimWith(sql, { named: [...shops, "unknown"].map((id) => namedOf(projectId, id)) })
    const { release } = yield* holding(
      sql,
      sql`SELECT FROM endpoint_health WHERE project_id = ${projectId} AND installation_id = 'shop2' FOR NO KEY UPDATE`
    )
    const { claims, locked } = yield* claimed
    yield* release
    assert.strictEqual(claims.filter((one) => one.projectId === projectId).length, 8)
    assert.deepStrictEqual(
      locked.map(({ installationId }) => installationId),
      ["shop2"]
    )
  })

  for (const isPoll of [true, false]) {
    it.effect(`divides them evenly, and leases none ahead, ${isPoll ? "in a poll" : "after a notice"}`, function* () {
      const { claimFor } = yield* scene(isPoll)
      assert.deepStrictEqual((yield* claimFor(5, 10)).toSorted(), [1, 2, 2])
      assert.deepStrictEqual(yield* claimFor(0, 10), [0, 0, 0])
      // Seven more may be leased, and there are seven slots: each endpoint gets its limit.
      assert.deepStrictEqual(
        (yield* claimFor(7, 6)).toSorted((a, b) => a - b),
        [4, 4, 5]
      )
      // All have their concurrency in flight. Leasing ahead needs no slot.
      assert.deepStrictEqual(yield* claimFor(0, 8), [2, 2, 2])
    })
  }

  it.effect("gives suspect endpoints no slot of the others", function* () {
    const { claimFor, projectId, sql } = yield* scene()
    yield* Effect.orDie(sql`
      UPDATE endpoint_health SET strikes = 3 WHERE project_id = ${projectId} AND installation_id <> 'shop3'`)
    const leased = yield* claimFor(4, 4)
    assert.deepStrictEqual([(leased[0] ?? 0) + (leased[1] ?? 0), leased[2]], [1, 4])
  })

  it.effect("leases nothing of a project at rest, though its endpoints are named", function* () {
    const { claimFor, projectId, sql } = yield* scene()
    yield* sql`UPDATE projects SET move_state = 'switched' WHERE project_id = ${projectId}`
    assert.deepStrictEqual(yield* claimFor(3, 4), [0, 0, 0])
    yield* sql`UPDATE projects SET move_state = NULL WHERE project_id = ${projectId}`
    assert.deepStrictEqual(yield* claimFor(3, 4), [1, 1, 1])
  })
})
