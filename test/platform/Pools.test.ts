import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import { defaultConnections, leastConnections, pools, sizesOf } from "../../src/platform/Pools.ts"

/** Runs a check for any permitted number of connections. */
const forAny = (check: (max: number) => void) =>
  fc.assert(fc.property(fc.integer({ min: leastConnections, max: 1_000 }), check))

const sumOf = (max: number) => Object.values(sizesOf(max)).reduce((sum, size) => sum + size, 0)

describe("the pools of a process", () => {
  it("have DATABASE_MAX_CONNECTIONS connections in total, 20 by default", () => {
    assert.strictEqual(defaultConnections, 20)
    forAny((max) => assert.strictEqual(sumOf(max), max))
  })

  it("have at least one connection each, whatever the maximum", () => {
    forAny((max) => assert.isTrue(Object.values(sizesOf(max)).every((size) => size >= 1)))
  })

  it("grow with DATABASE_MAX_CONNECTIONS, none at the cost of another", () => {
    forAny((max) => {
      const [fewer, more] = [sizesOf(max), sizesOf(max + 1)]
      for (const [id, size] of Object.entries(fewer))
        assert.isAtLeast(Object.entries(more).find(([of]) => of === id)?.[1] ?? 0, size)
    })
  })

  it("have distinct application names", () => {
    const names = Object.values(pools).map(({ name }) => name)
    assert.strictEqual(new Set(names).size, names.length)
  })
})
