/** A partial assertion, for values of which only some members matter. */
import { assert } from "@effect/vitest"
import { Predicate } from "effect"

/**
 * Asserts that `actual` has every member of `expected`, at any depth. Arrays must have the same length; a pattern in
 * `expected` matches text.
 */
export const assertMatches = (actual: unknown, expected: unknown, message?: string): void =>
  assert.deepStrictEqual(part(actual, expected), expected, message)

/** Returns the part of `actual` that `expected` describes. */
const part = (actual: unknown, expected: unknown): unknown => {
  if (expected instanceof RegExp) return typeof actual === "string" && expected.test(actual) ? expected : actual
  if (Array.isArray(expected) && Array.isArray(actual)) {
    return actual.map((item, index) => (index < expected.length ? part(item, expected[index]) : item))
  }
  if (Predicate.isReadonlyObject(expected) && Predicate.isReadonlyObject(actual)) {
    return Object.fromEntries(
      Object.entries(expected).map(([name, member]) => [
        name,
        part(Predicate.hasProperty(actual, name) ? actual[name] : undefined, member)
      ])
    )
  }
  return actual
}
