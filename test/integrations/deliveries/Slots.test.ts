/** Slots of attempts in flight: the share of a project, and what it leaves for others. */
import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { ProjectId } from "../../../src/api/schema/Ids.ts"
import { make, type Slots, sizes } from "../../../src/integrations/deliveries/DeliveryLoop/Slots.ts"

const holderOf = (name: string, suspect = false) => ({ projectId: ProjectId.make(name), suspect })

/** The number of slots that a project may take. */
const roomOf = (slots: Slots, { projectId, suspect }: ReturnType<typeof holderOf>) => {
  const { holders, newcomer } = slots.rooms()[suspect ? "suspect" : "healthy"]
  return holders.find((holder) => holder.projectId === projectId)?.room ?? newcomer
}

/** Takes as many slots as the project may. */
const fill = (slots: Slots, holder: ReturnType<typeof holderOf>) => {
  const room = roomOf(slots, holder)
  for (let n = 0; n < room; n++) slots.take(holder)
  return room
}

describe("slots", () => {
  for (const suspect of [false, true]) {
    const size = sizes[suspect ? "suspect" : "healthy"]
    const pool = suspect ? "suspect" : "healthy"

    it(`of the ${pool} pool: a project alone may take three quarters, and three more find some at once`, () => {
      const slots = make()
      assert.strictEqual(fill(slots, holderOf("one", suspect)), (size * 3) / 4)
      assert.strictEqual(roomOf(slots, holderOf("one", suspect)), 0)
      for (const name of ["two", "three", "four"]) assert.isAtLeast(fill(slots, holderOf(name, suspect)), 2)
    })

    it(`of the ${pool} pool are shared equally by projects that want more, as the attempts of the first end`, () => {
      const slots = make()
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

  it("of the two pools are separate", () => {
    const slots = make()
    fill(slots, holderOf("one", true))
    assert.strictEqual(slots.rooms().healthy.free, sizes.healthy)
    assert.deepStrictEqual(slots.rooms().healthy.holders, [])
  })

  it("are never exceeded, and are all free at the end", () => {
    const step = fc.record({ take: fc.boolean(), suspect: fc.boolean(), count: fc.nat(700), name: fc.nat(5) })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const slots = make()
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
          assert.strictEqual(healthy.free + suspects.free + held.length, sizes.healthy + sizes.suspect)
        }
        held.forEach(slots.release)
        for (const pool of ["healthy", "suspect"] as const) {
          assert.deepInclude(slots.rooms()[pool], { free: sizes[pool], holders: [] })
        }
      }),
      { numRuns: 50 }
    )
  })
})
