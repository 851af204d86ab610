/** The division of slots among endpoints while there are fewer slots than deliveries (contract §10). */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { InstallationId, ProjectId } from "../../src/api/Ids.ts"
import { claim } from "../../src/integrations/Deliveries/Claim.ts"
import { TestServer } from "../support/TestServer.ts"
import { open, layerOf } from "./Deliveries.support.ts"

const shops = ["shop1", "shop2", "shop3"]

/** Creates three endpoints with ten due deliveries each; returns a claim that counts the leases of each endpoint. */
const scene = Effect.fnUntraced(function* () {
  const server = yield* TestServer
  const { created, projectId, sql, subscribe } = yield* open(server, shops)
  for (const shop of shops) yield* subscribe(shop, "http://127.0.0.1:9/", ["crm.deal.created.v1"])
  for (let n = 0; n < 10; n++) yield* created()
  const claimFor = (healthy: number, width: number, visited: ReadonlyArray<string> = shops) =>
    Effect.orDie(
      claim(sql, {
        workerId: 1n,
        leaseMillis: 60_000,
        concurrency: 4,
        slots: { healthy, suspect: 1 },
        named: visited.map((id) => ({
          projectId: ProjectId.make(projectId),
          installationId: InstallationId.make(id),
          width
        }))
      })
    ).pipe(
      Effect.map((claims) =>
        shops.map((shop) => claims.filter((one) => one.projectId === projectId && one.installationId === shop).length)
      )
    )
  return { claimFor, projectId, sql }
})

layerOf({}, "api")("a claim with few slots", (it) => {
  it.effect("divides them evenly, and leases none ahead", () =>
    Effect.gen(function* () {
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
    }).pipe(Effect.orDie)
  )

  it.effect("gives suspect endpoints no slot of the others", () =>
    Effect.gen(function* () {
      const { claimFor, projectId, sql } = yield* scene()
      yield* Effect.orDie(sql`
        UPDATE endpoint_health SET strikes = 3 WHERE project_id = ${projectId} AND installation_id <> 'shop3'`)
      const leased = yield* claimFor(4, 4)
      assert.deepStrictEqual([(leased[0] ?? 0) + (leased[1] ?? 0), leased[2]], [1, 4])
    }).pipe(Effect.orDie)
  )
})
