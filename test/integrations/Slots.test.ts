/** Slots of attempts in flight: the limits of endpoints that hang or fail, and the slots left for the others. */
import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import {
  agedAfter,
  agedSlots,
  healthySlots,
  make,
  type Slot,
  suspectSlots
} from "../../src/integrations/Deliveries/Slots.ts"

describe("slots", () => {
  it("are available to healthy endpoints once the attempts of 200 hanging ones have aged", () => {
    const slots = make()
    for (let n = 0; n < 800; n++) if (slots.free(0).healthy > 0) slots.take(false, 0)
    assert.strictEqual(slots.free(agedAfter - 1).healthy, 0)
    assert.strictEqual(slots.free(agedAfter).healthy, healthySlots)
    for (let n = 0; n < 800 - healthySlots; n++) slots.take(false, agedAfter)
    assert.strictEqual(slots.free(2 * agedAfter).healthy, healthySlots)
  })

  it("of suspect endpoints are separate from the others", () => {
    const slots = make()
    for (let n = 0; n < suspectSlots; n++) slots.take(true, 0)
    assert.deepStrictEqual(slots.free(60_000), { healthy: healthySlots, suspect: 0 })
  })

  it("of aged attempts are bounded", () => {
    const slots = make()
    for (let n = 0; n < agedSlots + healthySlots; n++) slots.take(false, 0)
    assert.strictEqual(slots.free(60_000).healthy, 0)
    assert.strictEqual(slots.used(), agedSlots + healthySlots)
  })

  it("are never negative, and are all free at the end", () => {
    const step = fc.record({ take: fc.boolean(), suspect: fc.boolean(), count: fc.nat(700), pass: fc.nat(400) })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const slots = make()
        const held: Array<Slot> = []
        let now = 0
        for (const { count, pass, suspect, take } of steps) {
          now += pass
          for (let n = 0; n < count; n++) {
            if (take) held.push(slots.take(suspect, now))
            else {
              const slot = held.pop()
              if (slot !== undefined) slots.release(slot)
            }
          }
          const free = slots.free(now)
          assert.isTrue(free.healthy >= 0 && free.healthy <= healthySlots && free.suspect >= 0)
        }
        for (const slot of held) slots.release(slot)
        assert.deepStrictEqual(slots.free(now), { healthy: healthySlots, suspect: suspectSlots })
        assert.strictEqual(slots.used(), 0)
      })
    )
  })
})
