/** Where in a request something is wrong: `path/clientId`, `query/limit`, `header/idempotency-key`, `body/tags/3`. */
import type { Faults } from "../api/Problems.ts"
import { isUnsafe, unsafeMessage } from "../platform/UnsafeText.ts"

/** What is wrong at a location. */
export type LocatedFault = readonly [location: string, message: string]

/** A member name as a segment of a location (RFC 6901): `~` and `/` escaped. */
export const pointer = (name: string): string => name.replaceAll("~", "~0").replaceAll("/", "~1")

/** More than this helps nobody, and makes the answer larger than the request. */
const maxFaults = 1_000

/** Locations with all that was said of them. */
export const gather = (faults: ReadonlyArray<LocatedFault>): Faults => {
  const errors = new Map<string, Array<string>>()
  for (const [location, message] of faults.slice(0, maxFaults)) {
    const messages = errors.get(location) ?? []
    if (!messages.includes(message)) errors.set(location, [...messages, message])
  }
  return Object.fromEntries(errors)
}

/** Every string and member name of a body with a character that no string of this API holds; however deep it is. */
export function* unsafeStrings(body: unknown): Generator<LocatedFault> {
  const rest: Array<readonly [value: unknown, location: string]> = [[body, "body"]]
  for (let next = rest.pop(); next !== undefined; next = rest.pop()) {
    const [value, location] = next
    if (typeof value === "string") {
      if (isUnsafe(value)) yield [location, unsafeMessage]
    } else if (typeof value === "object" && value !== null) {
      for (const [name, member] of Object.entries(value)) {
        if (isUnsafe(name)) yield [location, `has a member whose name ${unsafeMessage}`]
        else rest.push([member, `${location}/${pointer(name)}`])
      }
    }
  }
}
