import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import { connectionsOf, pools, sizeOf } from "../../../src/platform/Database/Pools.ts"

describe("the pools of a process", () => {
  it("have DATABASE_MAX_CONNECTIONS connections in total, 20 by default", () => {
    assert.strictEqual(connectionsOf(20), 20)
    fc.assert(fc.property(fc.integer({ min: 16, max: 1_000 }), (max) => assert.strictEqual(connectionsOf(max), max)))
  })

  it("have at least one connection each for reads and mutations", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1_000 }), (max) => {
        assert.isAtLeast(sizeOf(pools.reads, max), 1)
        assert.isAtLeast(sizeOf(pools.mutations, max), 1)
      })
    )
  })

  it("have distinct application names", () => {
    const names = Object.values(pools).map(({ name }) => name)
    assert.strictEqual(new Set(names).size, names.length)
  })
})
