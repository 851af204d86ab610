/** Permits for calls in flight, under a test clock. */
import { assert, describe, it } from "../../support/Vitest.ts"
import { Duration, Effect } from "effect"
import { TestClock } from "effect/testing"
import * as Slots from "../../../src/platform/background/Slots.ts"

const options: Slots.Options = {
  total: 100,
  perKey: 16,
  initial: 2,
  failingShare: 0.25,
  slowAfter: Duration.seconds(1)
}

const scene = Effect.map(Slots.make(options), (slots) => {
  const free = (tenant: string, key: string) => {
    const { free, keys, newKey } = slots.limits()
    return Math.min(free, keys.find((entry) => entry.tenant === tenant && entry.key === key)?.free ?? newKey)
  }
  /** Takes all free permits of a key, and begins a call with each. */
  const fill = (tenant: string, key: string) => {
    const permits = Array.from({ length: free(tenant, key) }, () => slots.take(tenant, key))
    for (const permit of permits) permit.begin()
    return permits
  }
  const end = (permits: ReadonlyArray<Slots.Permit>, how: Slots.End) => {
    for (const permit of permits) permit.end(how)
  }
  return { slots, free, fill, end }
})

describe("slots of attempts", () => {
  it.effect("grow with a key that uses all of its permits and answers, up to the limit of a key", function* () {
    const { end, fill } = yield* scene
    const sizes = []
    for (let round = 0; round < 20; round++) {
      const permits = fill("a", "k")
      sizes.push(permits.length)
      end(permits, "succeeded")
    }
    assert.deepStrictEqual([sizes[0], sizes.at(-1)], [2, 16])
    assert.deepStrictEqual(
      sizes,
      [...sizes].sort((a, b) => a - b)
    )
  })

  it.effect("shrink to the first size after a failure, and a permit is returned once", function* () {
    const { end, fill, free, slots } = yield* scene
    for (let round = 0; round < 20; round++) end(fill("a", "k"), "succeeded")
    const permits = fill("a", "k")
    end(permits, "failed")
    end(permits, "failed")
    assert.strictEqual(free("a", "k"), 2)
    assert.strictEqual(slots.limits().free, 100)
  })

  it.effect("leave three quarters to others when two hundred keys of many tenants hang", function* () {
    const { end, fill, free, slots } = yield* scene
    // Each key fails once by a call that hangs, and is tried again as often as permitted.
    for (let key = 0; key < 200; key++) end(fill(`tenant ${key}`, "hangs"), "failed")
    let taken = 0
    for (let key = 0; key < 200; key++) taken += fill(`tenant ${key}`, "hangs").length
    assert.strictEqual(taken, 25)
    assert.strictEqual(slots.limits().free, 75)
    assert.strictEqual(free("new", "k"), 2)
  })

  it.effect("count a key that has grown among the suspect ones when it hangs for a second", function* () {
    const { end, fill, free } = yield* scene
    for (let round = 0; round < 20; round++) end(fill("a", "k"), "succeeded")
    const hanging = fill("a", "k")
    assert.strictEqual(hanging.length, 16)
    end(fill("b", "fails"), "failed")
    assert.strictEqual(free("b", "fails"), 2)
    for (const key of ["1", "2", "3", "4"]) fill("c", key)
    yield* TestClock.adjust("1 second")
    // 16 of "a" and 8 of "c" are slow by now: one of 25 is left.
    assert.strictEqual(free("b", "fails"), 1)
    assert.strictEqual(free("d", "k"), 2)
    // Once one of them answers, the others count as late, not as failed.
    end(hanging, "succeeded")
    assert.strictEqual(free("b", "fails"), 2)
    assert.isAbove(free("a", "k"), 2)
  })

  it.effect("are counted for each tenant over its keys, and a tenant alone may take all", function* () {
    const { fill, slots } = yield* scene
    fill("b", "k")
    for (let key = 0; key < 60; key++) fill("a", String(key))
    assert.deepStrictEqual(slots.limits().tenants, [
      { tenant: "b", held: 2 },
      { tenant: "a", held: 98 }
    ])
  })

  it.effect("let a key that answers slowly grow, within the share of the suspect ones", function* () {
    const { end, fill, free } = yield* scene
    for (let round = 0; round < 20; round++) {
      const permits = fill("a", "slow")
      yield* TestClock.adjust("2 seconds")
      end(permits, "succeeded")
    }
    assert.strictEqual(free("a", "slow"), 16)
  })

  it.effect("do not count a permit for or against its key that was not used", function* () {
    const { end, fill, free } = yield* scene
    end(fill("a", "k"), "unused")
    assert.strictEqual(free("a", "k"), 2)
  })

  it.effect("forget a key ten minutes after its last call", function* () {
    const { end, fill, free, slots } = yield* scene
    for (let round = 0; round < 20; round++) end(fill("a", "k"), "succeeded")
    yield* TestClock.adjust("599 seconds")
    assert.strictEqual(free("a", "k"), 16)
    yield* TestClock.adjust("1 second")
    slots.limits()
    assert.strictEqual(free("a", "k"), 2)
  })
})
