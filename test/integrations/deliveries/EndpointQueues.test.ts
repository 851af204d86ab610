/** The number of deliveries claimed ahead for a quick endpoint: enough that it never waits for a claim. */
import { assert, describe, it } from "@effect/vitest"
import type { Claim } from "../../../src/integrations/deliveries/DeliveryLoop/Claim.ts"
import {
  type EndpointQueues,
  make,
  namedPerClaim
} from "../../../src/integrations/deliveries/DeliveryLoop/EndpointQueues.ts"
import { InstallationId } from "../../../src/api/schema/Ids.ts"
import { claimOf as newClaim } from "../../support/Claims.ts"

const claims = new Map<number, Claim>()

/** Returns the claimed delivery of a number. */
const claimOf = (due: number): Claim => {
  const claim = claims.get(due) ?? newClaim(due)
  claims.set(due, claim)
  return claim
}

/** Creates a queue of width 1 that is quick from time 1 on; its last claim leased `leased` of at most 16 ahead. */
const filled = (leased: number) => {
  const queues = make(1, () => {})
  named(queues, 0)
  queues.add([claimOf(0)], 0)
  end(queues, 0, 1)
  queues.recorded(claimOf(0))
  named(queues, 1)
  queues.add(
    Array.from({ length: leased }, (_, n) => claimOf(n + 1)),
    1
  )
  return queues
}

/** Names the endpoint and takes it for a claim. */
const named = (queues: EndpointQueues<Claim>, now: number) => {
  queues.name([claimOf(0)])
  return queues.takeNamed(now)
}

/** Ends a delivery at a time. */
const end = (queues: EndpointQueues<Claim>, due: number, now: number) =>
  queues.next(claimOf(due), { succeeded: true, millis: 1, now })

describe("an endpoint that is quick", () => {
  it("has more claimed at half, though results of the last claim were not recorded yet when it was filled", () => {
    const queues = filled(16)
    for (let due = 1; due <= 12; due++) end(queues, due, 50)
    for (let due = 1; due <= 9; due++) queues.recorded(claimOf(due))
    named(queues, 50)
    queues.add(
      Array.from({ length: 9 }, (_, n) => claimOf(n + 17)),
      50
    )
    for (let due = 13; due <= 17; due++) end(queues, due, 60)
    assert.isTrue(queues.isAnyNamed(60))
  })

  it("has as much claimed ahead after all was sent", () => {
    const queues = filled(4)
    for (let due = 1; due <= 4; due++) {
      end(queues, due, 50)
      queues.recorded(claimOf(due))
    }
    assert.isFalse(queues.isAnyNamed(60))
    assert.strictEqual(named(queues, 60)[0]?.width, 16)
  })
})

describe("named endpoints", () => {
  it("are taken for a claim up to a number, the earliest named first, and the others for the next", () => {
    const queues = make(1, () => {})
    const ids = Array.from({ length: namedPerClaim + 1 }, (_, n) => InstallationId.make(`installation-${n}`))
    queues.name(ids.map((installationId) => ({ ...claimOf(0), installationId })))
    const taken = [queues.takeNamed(0), queues.takeNamed(0), queues.takeNamed(0)]
    assert.deepStrictEqual(
      taken.map((endpoints) => endpoints.length),
      [namedPerClaim, 1, 0]
    )
    assert.deepStrictEqual(
      taken.flat().map(({ installationId }) => installationId),
      ids
    )
  })
})
