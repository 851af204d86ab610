import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import { extentOf, maxDepth, maxEntries } from "../../../src/server/decoding/JsonExtent.ts"
import { lossesOf } from "../../../src/server/decoding/JsonLosses.ts"
import { hostileBodies } from "../../support/HostileBodies.ts"

/** What remains of a value in the excerpt of its text. */
const shortened = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.slice(0, maxEntries + 1).map(shortened)
  if (typeof value !== "object" || value === null) return value
  const members = Object.entries(value).slice(0, maxEntries + 1)
  return Object.fromEntries(members.map(([name, member]) => [name, shortened(member)]))
}

/** Repeats each list and object of a value, so that some of them are too long. */
const lengthened = (value: unknown, times: number): unknown => {
  if (Array.isArray(value)) return Array.from({ length: times }, () => value).flat()
  if (typeof value !== "object" || value === null) return value
  return Object.fromEntries(
    Array.from({ length: times }, (_, i) =>
      Object.entries(value).map(([name, member]) => [`m${i}${name}`, member])
    ).flat()
  )
}

describe("the excerpt of a JSON text", () => {
  it("is the text without the entries that are too many, and the text itself where none are", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), fc.constantFrom(1, 334, 1_500), (value, times) => {
        const text = JSON.stringify([lengthened(value, times), lengthened([value, "],}\\"], times), { a: value }])
        const { entries, excerpt } = extentOf(text)
        assert.deepStrictEqual(JSON.parse(excerpt), shortened(JSON.parse(text)))
        if (entries <= maxEntries) assert.strictEqual(excerpt, text)
      }),
      { numRuns: 50 }
    )
  })

  it("of a text that is made to cost much has no list of more entries, and is malformed where the text is", () => {
    const longest = (value: unknown): number =>
      typeof value === "object" && value !== null
        ? Math.max(Object.keys(value).length, ...Object.values(value).map(longest))
        : 0
    for (const [name, { body }] of Object.entries(hostileBodies)) {
      const { depth, excerpt } = extentOf(body)
      if (depth <= maxDepth) assert.isAtMost(longest(JSON.parse(excerpt)), maxEntries + 1, name)
    }
    const many = Array.from({ length: 5_000 }, () => "0").join(",")
    for (const text of [`[${many}`, `[${many}}`, `{"a":[${many}]`, `[${many}],`]) {
      assert.throws(() => JSON.parse(extentOf(text).excerpt))
    }
  })
})

describe("the losses of a parsed JSON text", () => {
  const lossesIn = (text: string) => lossesOf(text, extentOf(text), JSON.parse(text))

  it("are repeated members of one object and fractions that are lost, each at its place", () => {
    const repeated = "must not be repeated"
    for (const [text, ...losses] of [
      ['{"a":1,"b":{"a":1},"c":[{"a":1},{"a":1}]}'],
      [String.raw`{"a":1,"b":2,"\u0061":3}`, ["a", repeated]],
      ['{"__proto__":1,"__proto__":{}}', ["__proto__", repeated]],
      [String.raw`[1,[2,{"b~/":{"c" : "}","c":"\\",":":"\"c\":"}}],3]`, ["1/1/b~0~1/c", repeated]],
      ['{"a":[1.0,1e3,10e-1,0.0e-9,100e-2,1.01e2,1.5,1e999,-1E-0,"0.1e-400"],"e1":false}'],
      ['{"a":[0,-1.00000000000000000001],"b":0.1e-400}', ["a/1", "must be an integer"], ["b", "must be an integer"]]
    ] as const) {
      assert.deepStrictEqual(lossesIn(text), losses, text)
    }
  })

  it("are none in a text that was made from a value", () => {
    fc.assert(fc.property(fc.jsonValue(), (value) => assert.deepStrictEqual(lossesIn(JSON.stringify(value)), [])))
  })
})
