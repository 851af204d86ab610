/** Where in a request something is wrong: `path/clientId`, `query/limit`, `header/idempotency-key`, `body/tags/3`. */
import type { Faults } from "../api/Problems.ts"

/** What is wrong at a location. */
export type LocatedFault = readonly [location: string, message: string]

/** A member name as a segment of a location (RFC 6901): `~` and `/` escaped. */
export const pointer = (name: string): string => name.replaceAll("~", "~0").replaceAll("/", "~1")

/** Locations with all that was said of them. */
export const gather = (faults: ReadonlyArray<LocatedFault>): Faults => {
  const errors = new Map<string, Array<string>>()
  for (const [location, message] of faults) {
    const messages = errors.get(location) ?? []
    if (!messages.includes(message)) errors.set(location, [...messages, message])
  }
  return Object.fromEntries(errors)
}
