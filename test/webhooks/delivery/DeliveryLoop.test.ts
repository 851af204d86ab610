/** The parts of the delivery loop in memory: slots of attempts in flight, and queues of claimed deliveries. */
import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { InstallationId, ProjectId } from "../../../src/api/schema/Ids.ts"
import type { Claim } from "../../../src/webhooks/delivery/Attempt.ts"
import {
  type EndpointQueues,
  make as makeQueues,
  namedPerClaim
} from "../../../src/webhooks/delivery/DeliveryLoop/EndpointQueues.ts"
import { makeSlots, slotsByClass } from "../../../src/webhooks/delivery/DeliveryLoop/Visits.ts"
import { claimOf as newClaim } from "../../support/Claims.ts"

const holderOf = (name: string, suspect = false) => ({ projectId: ProjectId.make(name), suspect })

/** The number of slots that a project may take. */
const roomOf = (slots: ReturnType<typeof makeSlots>, { projectId, suspect }: ReturnType<typeof holderOf>) => {
  const { holders, newcomer } = slots.rooms()[suspect ? "suspect" : "healthy"]
  return holders.find((holder) => holder.projectId === projectId)?.room ?? newcomer
}

/** Takes as many slots as the project may. */
const fill = (slots: ReturnType<typeof makeSlots>, holder: ReturnType<typeof holderOf>) => {
  const room = roomOf(slots, holder)
  for (let n = 0; n < room; n++) slots.take(holder)
  return room
}

describe("slots", () => {
  for (const suspect of [false, true]) {
    const size = slotsByClass[suspect ? "suspect" : "healthy"]
    const slotClass = suspect ? "suspect" : "healthy"

    it(`of the ${slotClass} class: a project alone may take three quarters, and three more find some at once`, () => {
      const slots = makeSlots()
      assert.strictEqual(fill(slots, holderOf("one", suspect)), (size * 3) / 4)
      assert.strictEqual(roomOf(slots, holderOf("one", suspect)), 0)
      for (const name of ["two", "three", "four"]) assert.isAtLeast(fill(slots, holderOf(name, suspect)), 2)
    })

    it(`of the ${slotClass} class are shared equally by projects that want more, as the attempts of the first end`, () => {
      const slots = makeSlots()
      const names = ["one", "two", "three", "four"]
      const held = new Map(names.map((name) => [name, fill(slots, holderOf(name, suspect))]))
      for (let n = 0; n < 4 * size; n++) {
        const [longest = "one"] = [...held].toSorted(([, a], [, b]) => b - a)[0] ?? []
        slots.release(holderOf(longest, suspect))
        held.set(longest, (held.get(longest) ?? 0) - 1)
        for (const name of names) held.set(name, (held.get(name) ?? 0) + fill(slots, holderOf(name, suspect)))
      }
      for (const count of held.values()) assert.closeTo(count, (size * 3) / 13, 2)
    })
  }

  it("of the two classes are separate", () => {
    const slots = makeSlots()
    fill(slots, holderOf("one", true))
    assert.strictEqual(slots.rooms().healthy.free, slotsByClass.healthy)
    assert.deepStrictEqual(slots.rooms().healthy.holders, [])
  })

  it("are never exceeded, and are all free at the end", () => {
    const step = fc.record({ take: fc.boolean(), suspect: fc.boolean(), count: fc.nat(700), name: fc.nat(5) })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const slots = makeSlots()
        const held: Array<ReturnType<typeof holderOf>> = []
        for (const { count, name, suspect, take } of steps) {
          const holder = holderOf(`p${name}`, suspect)
          for (let n = 0; n < count; n++) {
            if (!take) {
              const last = held.pop()
              if (last !== undefined) slots.release(last)
            } else if (roomOf(slots, holder) > 0) {
              slots.take(holder)
              held.push(holder)
            }
          }
          const { healthy, suspect: suspects } = slots.rooms()
          for (const { free, holders, newcomer } of [healthy, suspects]) {
            assert.isAtLeast(free, 0)
            assert.isAtMost(newcomer, free)
            for (const { room } of holders) assert.isTrue(room >= 0 && room <= newcomer)
          }
          assert.strictEqual(healthy.free + suspects.free + held.length, slotsByClass.healthy + slotsByClass.suspect)
        }
        held.forEach(slots.release)
        for (const slotClass of ["healthy", "suspect"] as const) {
          assert.deepInclude(slots.rooms()[slotClass], { free: slotsByClass[slotClass], holders: [] })
        }
      }),
      { numRuns: 50 }
    )
  })
})

const claims = new Map<number, Claim>()

/** Returns the claimed delivery of a number. */
const claimOf = (due: number): Claim => {
  const claim = claims.get(due) ?? newClaim(due)
  claims.set(due, claim)
  return claim
}

/** Creates a queue of width 1 that is quick from time 1 on; its last claim leased `leased` of at most 16 ahead. */
const filled = (leased: number) => {
  const queues = makeQueues(1, () => {})
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
const end = (queues: EndpointQueues<Claim>, due: number, now: number, isPrompt = false) =>
  queues.next(claimOf(due), { succeeded: true, millis: 1, now, isPrompt })

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
    queues.refresh(60)
    assert.isTrue(queues.isAnyNamed())
  })

  it("has as much claimed ahead after all was sent", () => {
    const queues = filled(4)
    for (let due = 1; due <= 4; due++) {
      end(queues, due, 50)
      queues.recorded(claimOf(due))
    }
    queues.refresh(60)
    assert.isFalse(queues.isAnyNamed())
    assert.strictEqual(named(queues, 60)[0]?.width, 16)
  })
})

describe("deliveries", () => {
  it.each([
    ["are behind while an endpoint that answers at once has the maximum number of leases", 16, true, true],
    ["are not behind if the endpoint has fewer leases", 15, true, false],
    ["are not behind if they wait for the endpoint", 16, false, false]
  ] as const)("%s", (_, leased, isPrompt, isBehind) => {
    const queues = filled(leased)
    end(queues, 1, 50, isPrompt)
    assert.strictEqual(queues.behind(60).size, isBehind ? 1 : 0)
    assert.strictEqual(queues.behind(151).size, 0)
    named(queues, 60)
    assert.strictEqual(queues.behind(60).size, 0)
  })
})

describe("named endpoints", () => {
  it("are taken for a claim up to a number, the earliest named first, and the others for the next", () => {
    const queues = makeQueues(1, () => {})
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
