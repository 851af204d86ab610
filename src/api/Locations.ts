/** Where in a request something is wrong: `path/clientId`, `query/limit`, `header/idempotency-key`, `body/tags/3`. */
import type { Faults } from "./Problems.ts"

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

/** The first of the locations, in a sentence. */
export const seeErrors = (errors: Faults): string => `See errors: ${Object.keys(errors).slice(0, 5).join(", ")}.`
