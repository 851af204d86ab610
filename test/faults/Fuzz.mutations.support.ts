/** Random changes of JSON documents and of bytes, for fuzzing. */
import { Schema } from "effect"
import * as fc from "fast-check"

export type Members = Readonly<Record<string, unknown>>

export const isMembers = Schema.is(Schema.Record(Schema.String, Schema.Unknown))

const unusual = [
  "",
  " ",
  "null",
  "\u0000",
  "\ud800",
  "\u2028",
  "\ufffe",
  "😀",
  "'; --",
  "%_\\",
  "__proto__",
  "constructor",
  "-infinity",
  "NaN",
  "0001-01-01",
  "9999-12-31T23:59",
  "10000-01-01",
  "9223372036854775808",
  "x".repeat(161),
  "é".repeat(5_000)
]
const unusualNumbers = [-0, -1, 0.5, 1e-320, 1e308, 2 ** 31, 2 ** 53, -(2 ** 63), 1e21]

/** Random text, often of a kind that code mistakes for something else. */
export const anyText = fc.oneof(fc.constantFrom(...unusual), fc.string({ unit: "binary", maxLength: 40 }))

const nestings = [2, 31, 32, 33, 500].map((depth) => `${"[".repeat(depth)}${"]".repeat(depth)}`)

const value: fc.Arbitrary<unknown> = fc.oneof(
  { weight: 4, arbitrary: anyText },
  { weight: 2, arbitrary: fc.constantFrom(...unusualNumbers, null, true, false) },
  { weight: 2, arbitrary: fc.jsonValue({ maxDepth: 3 }) },
  { weight: 1, arbitrary: fc.constantFrom(...nestings).map((text): unknown => JSON.parse(text)) },
  { weight: 1, arbitrary: fc.array(anyText, { maxLength: 150, size: "max" }) }
)

/** A change at one place of a JSON document. */
interface Mutation {
  readonly place: number
  readonly kind: "replace" | "remove" | "add"
  readonly name: string
  readonly value: unknown
}

export const mutation: fc.Arbitrary<Mutation> = fc.record({
  place: fc.nat(),
  kind: fc.constantFrom("replace", "remove", "add"),
  name: anyText,
  value
})

/** Applies a mutation to a value; places are counted in depth-first order. */
export const mutated = (document: unknown, { kind, name, place, value }: Mutation): unknown => {
  let left = place % placesOf(document)
  const walk = (node: unknown): unknown => {
    if (left-- === 0) {
      if (kind === "replace") return value
      if (kind === "remove") return undefined
      if (Array.isArray(node)) return [...node, value]
      return isMembers(node) ? { ...node, [name]: value } : [node, value]
    }
    if (Array.isArray(node)) return node.map(walk)
    return isMembers(node) ? Object.fromEntries(Object.entries(node).map(([key, member]) => [key, walk(member)])) : node
  }
  return walk(document)
}

const placesOf = (node: unknown): number => {
  const below = Array.isArray(node) ? node : isMembers(node) ? Object.values(node) : []
  return below.reduce((sum: number, member: unknown) => sum + placesOf(member), 1)
}

/** A change of bytes. */
interface Edit {
  readonly place: number
  readonly remove: number
  readonly insert: Uint8Array
}

export const edit = (pieces: ReadonlyArray<string>): fc.Arbitrary<Edit> =>
  fc.record({
    place: fc.nat(),
    remove: fc.oneof(fc.nat({ max: 3 }), fc.nat({ max: 100 })),
    insert: fc.oneof(
      fc.constantFrom(...pieces).map((text) => Buffer.from(text)),
      fc.uint8Array({ maxLength: 4 })
    )
  })

/** Applies edits to bytes, one after another. */
export const edited = (bytes: Uint8Array, edits: ReadonlyArray<Edit>): Uint8Array =>
  edits.reduce<Uint8Array>((before, { insert, place, remove }) => {
    const at = place % (before.length + 1)
    return Buffer.concat([before.subarray(0, at), insert, before.subarray(at + remove)])
  }, bytes)

/** Texts that break JSON. */
export const jsonPieces = [
  "",
  '"',
  "{",
  "}",
  "[",
  "]",
  ",",
  ":",
  "\\u0000",
  "\\ud800",
  "\ufeff",
  "1e999",
  '"a":1,',
  "//"
]
