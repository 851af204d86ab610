/** Locations of faults in a request: `path/clientId`, `query/limit`, `header/idempotency-key`, `body/tags/3`. */
import { JsonPointer } from "effect"
import type { Faults } from "../Problems.ts"

/** A fault and its location, whose segments are escaped as in RFC 6901. */
export type LocatedFault = readonly [location: string, message: string]

/** Maximum number of faults in an answer (contract §1). What gathers faults may stop after one more. */
export const maxFaults = 100

/** Maximum length of a location in an answer, in code points (contract §1). */
const maxLocation = 256

/** Maximum length of a name in a location, in code points (contract §1). */
const maxName = 64

/** Maximum size of the reported faults as JSON, in bytes. This keeps the whole body of a problem below 64 KiB. */
const maxFaultBytes = 32 * 1024

const encoder = new TextEncoder()
const jsonBytes = (text: string) => encoder.encode(JSON.stringify(text)).length

const cut = (location: string, length: number) =>
  location.length <= length
    ? location
    : Array.from(location.slice(0, 2 * length))
        .slice(0, length)
        .join("")

/** Makes the location of a part of a request, such as `body`, or of a value in it. */
export const locationOf = (part: string, path: ReadonlyArray<PropertyKey>): string => {
  let location = part
  for (const name of path) {
    if (location.length > 2 * maxLocation) break
    location += `/${JsonPointer.escapeToken(cut(String(name), maxName))}`
  }
  return location
}

interface GroupedFaults {
  readonly errors: Faults
  readonly omitted: number
}

/** Groups faults by location, up to `maxFaults` and `maxFaultBytes`. Counts the faults that are left out. */
export const groupFaults = (faults: Iterable<LocatedFault>): GroupedFaults => {
  const errors = new Map<string, Array<string>>()
  let bytes = 0
  let count = 0
  let omitted = 0
  for (const [whole, message] of faults) {
    const location = cut(whole, maxLocation)
    const messages = errors.get(location)
    if (messages?.includes(message) === true) continue
    const size = bytes < maxFaultBytes ? jsonBytes(message) + jsonBytes(location) : 0
    if (count >= maxFaults || bytes + size >= maxFaultBytes) {
      omitted++
    } else {
      count++
      bytes += size
      if (messages === undefined) errors.set(location, [message])
      else messages.push(message)
    }
  }
  return { errors: Object.fromEntries(errors), omitted }
}

export const faultDetail = ({ errors, omitted }: GroupedFaults): string => {
  const first = Object.keys(errors)
    .slice(0, 5)
    .map((location) => cut(location, 64))
  const rest = omitted === 0 ? "" : ` At least ${omitted} more ${omitted === 1 ? "fault is" : "faults are"} left out.`
  return `See errors: ${first.join(", ")}.${rest}`
}
