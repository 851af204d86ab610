import { assert, describe, it } from "@effect/vitest"
import { hashOf } from "../../../src/platform/mutations/NameHash.ts"

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
