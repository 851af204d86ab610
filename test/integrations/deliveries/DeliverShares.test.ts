/** The division of slots among projects and endpoints while there are fewer slots than deliveries (contract §10). */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { ProjectId } from "../../../src/api/schema/Ids.ts"
import type { Room } from "../../../src/integrations/deliveries/DeliveryLoop/Slots.ts"
import { claimWith, namedOf, roomsOf } from "../../support/Claims.ts"
import { holding } from "../../support/Locks.ts"
import { layerOf } from "./Deliveries.support.ts"
import { openDue } from "./Due.support.ts"

const shops = ["shop1", "shop2", "shop3"]

/** Creates three endpoints with ten due deliveries each; returns a claim that counts the leases of each endpoint. */
const scene = Effect.fnUntraced(function* () {
  const project = yield* openDue(10, shops)
  const claimFor = (healthy: number, width: number) =>
    Effect.map(project.claimed(width, { concurrency: 4, rooms: roomsOf(healthy, 1) }), (claims) =>
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

  it.effect("divides them evenly, and leases none ahead", function* () {
    const { claimFor } = yield* scene()
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
