import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import { capacity, FairQueue, type Queued } from "../../src/commands/Grouped.ts"
import { hashOf } from "../../src/platform/Ids.ts"

interface Item extends Queued {
  readonly label: string
}

const item = (projectId: string, label: string, ...names: ReadonlyArray<number>): Item => ({
  label,
  input: { projectId, names }
})
const labels = (items: ReadonlyArray<Item>) => items.map(({ label }) => label).toSorted()

describe("a fair queue", () => {
  it("takes one item of each project before a second one of any project", () => {
    const queue = new FairQueue<Item>()
    for (let n = 0; n < 100; n++) queue.add(item("busy", `busy ${n}`))
    queue.add(item("one", "one 0"))
    queue.add(item("other", "other 0"))
    assert.deepStrictEqual(labels(queue.take(4)), ["busy 0", "busy 1", "one 0", "other 0"])
  })

  it("begins with the project that was served longest ago", () => {
    const queue = new FairQueue<Item>()
    for (const project of ["a", "b", "c"]) for (const n of [0, 1]) queue.add(item(project, `${project}${n}`))
    assert.deepStrictEqual(labels(queue.take(2)), ["a0", "b0"])
    assert.deepStrictEqual(labels(queue.take(2)), ["a1", "c0"])
    assert.deepStrictEqual(labels(queue.take(2)), ["b1", "c1"])
    assert.isTrue(queue.isEmpty)
  })

  it("serves items that share a name one at a time and in order", () => {
    const queue = new FairQueue<Item>()
    const [first, second, third] = [item("a", "1", 1, 2), item("a", "2", 2), item("a", "3", 3)]
    for (const each of [first, second, third]) queue.add(each)
    assert.deepStrictEqual(queue.take(32), [first, third])
    assert.deepStrictEqual(queue.take(32), [])
    queue.done(first)
    assert.deepStrictEqual(queue.take(32), [second])
  })

  it("keeps the order of a name behind an item that waits for another of its names", () => {
    const queue = new FairQueue<Item>()
    const [first, second, third] = [item("a", "1", 1, 2), item("a", "2", 1, 3), item("a", "3", 3)]
    for (const each of [first, second, third]) queue.add(each)
    assert.deepStrictEqual(queue.take(32), [first])
    queue.done(first)
    assert.deepStrictEqual(queue.take(32), [second])
    queue.done(second)
    assert.deepStrictEqual(queue.take(32), [third])
  })

  it("is full for the projects that have their share of it, and not for others", () => {
    const queue = new FairQueue<Item>()
    for (let n = 0; n < capacity - 1; n++) queue.add(item("busy", `${n}`))
    assert.isFalse(queue.isFullFor(item("busy", "")))
    queue.add(item("quiet", "0"))
    assert.isTrue(queue.isFullFor(item("busy", "")))
    assert.isFalse(queue.isFullFor(item("quiet", "")))
    assert.isFalse(queue.isFullFor(item("new", "")))
  })

  it("forgets an item that is removed", () => {
    const queue = new FairQueue<Item>()
    const [one, other] = [item("a", "one"), item("a", "other")]
    queue.add(one)
    queue.add(other)
    queue.remove(one)
    assert.deepStrictEqual(queue.take(32), [other])
    queue.remove(other)
    assert.isTrue(queue.isEmpty)
  })

  it("serves every item once under any order of changes", () => {
    const project = fc.constantFrom("a", "b", "c")
    const name = fc.constantFrom(1, 2, 3)
    fc.assert(
      fc.property(fc.array(fc.tuple(project, fc.array(name, { maxLength: 2 })), { maxLength: 60 }), (given) => {
        const queue = new FairQueue<Item>()
        const items = given.map(([projectId, names], n) => item(projectId, `${n}`, ...names))
        for (const each of items) queue.add(each)
        const served: Array<Item> = []
        while (!queue.isEmpty) {
          const taken = queue.take(4)
          assert.isNotEmpty(taken)
          for (const each of taken) queue.done(each)
          served.push(...taken)
        }
        assert.deepStrictEqual(labels(served), labels(items))
      })
    )
  })
})

describe("the hash of a name", () => {
  it("is the same for the same name", () => {
    assert.strictEqual(hashOf("key", "demo", "a"), hashOf("key", "demo", "a"))
  })

  it("depends on where its parts begin and end", () => {
    assert.strictEqual(new Set([hashOf("ab", "c"), hashOf("a", "bc"), hashOf("abc"), hashOf("abc", "")]).size, 4)
  })

  it("spreads the keys of a client, in all bits and in the low ones", () => {
    const hashes = Array.from({ length: 10_000 }, (_, i) => hashOf("demo", `import-2026-${i}`))
    assert.isAtLeast(new Set(hashes).size, 9_995)
    // Of 32,768 places, 10,000 random hashes take 8,600.
    assert.isAtLeast(new Set(hashes.map((hash) => hash & 32_767)).size, 8_000)
  })
})
