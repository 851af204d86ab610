/** What can be said of a body whatever its schema. */
import { type LocatedFault, pointer } from "../api/Locations.ts"
import { isUnsafe, unsafeMessage } from "../platform/UnsafeText.ts"

/** No list or object of this API has more entries; judging each of a hundred thousand would take the others' time. */
export const maxEntries = 1_000
const tooManyEntries = `must have at most ${maxEntries} entries`

/** The part of a value that is judged where there are too many entries: the first of each list and object. */
export const firstEntries = (value: unknown, depth = 0): unknown => {
  if (typeof value !== "object" || value === null || depth > deepest) return value
  if (Array.isArray(value)) return value.slice(0, maxEntries).map((item) => firstEntries(item, depth + 1))
  return Object.fromEntries(
    Object.entries(value)
      .slice(0, maxEntries)
      .map(([name, member]) => [name, firstEntries(member, depth + 1)])
  )
}

/** No body of this API is deeper, and what is unknown in it is not looked into. */
const deepest = 4

/** What is wrong with a value whatever its schema: unsafe characters, and too many entries; however deep it is. */
export function* faultsOfValue(body: unknown): Generator<LocatedFault> {
  const rest: Array<readonly [value: unknown, location: string]> = [[body, "body"]]
  for (let next = rest.pop(); next !== undefined; next = rest.pop()) {
    const [value, location] = next
    if (typeof value === "string") {
      if (isUnsafe(value)) yield [location, unsafeMessage]
    } else if (typeof value === "object" && value !== null) {
      const entries = Object.entries(value)
      if (entries.length > maxEntries) yield [location, tooManyEntries]
      for (const [name, member] of entries.slice(0, maxEntries)) {
        if (isUnsafe(name)) yield [location, `has a member whose name ${unsafeMessage}`]
        else rest.push([member, `${location}/${pointer(name)}`])
      }
    }
  }
}
