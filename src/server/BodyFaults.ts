/** Faults of a body that hold for every schema: its nesting, the length of its lists, unsafe characters. */
import { type LocatedFault, pointer } from "../api/Locations.ts"
import { isUnsafe, unsafeMessage } from "../platform/UnsafeText.ts"
import type { Body } from "./JsonBody.ts"
import { maxDepth, maxEntries } from "./JsonExtent.ts"

const tooDeep: LocatedFault = ["body", `must not be nested deeper than ${maxDepth} levels`]
const tooManyEntries = `must have at most ${maxEntries} entries`

/** More than an answer has room for. */
const maxFaults = 1_000

/**
 * Finds the faults. In a text of valid UTF-8 only an escape can bring an unsafe character into a string, so the values
 * of most bodies are not walked.
 */
export const bodyFaults = ({ extent, text, value }: Body): ReadonlyArray<LocatedFault> => {
  if (extent.depth > maxDepth) return [tooDeep]
  const faults: Array<LocatedFault> = []
  if (extent.entries > maxEntries || unsafeEscape.test(text)) collect(value, ["body"], faults)
  return faults
}

const unsafeEscape = /\\u(?:0000|d[89a-f])/i

/** Walks a value of bounded depth; the location is written only for a fault. */
const collect = (value: unknown, path: Array<string>, faults: Array<LocatedFault>): void => {
  if (faults.length >= maxFaults) return
  if (typeof value === "string") {
    if (isUnsafe(value)) faults.push([path.join("/"), unsafeMessage])
  } else if (typeof value === "object" && value !== null) {
    const names = Object.keys(value)
    if (names.length > maxEntries) faults.push([path.join("/"), tooManyEntries])
    for (const [name, member] of Object.entries(value).slice(0, maxEntries)) {
      if (isUnsafe(name)) faults.push([path.join("/"), `has a member whose name ${unsafeMessage}`])
      else if (typeof member === "string" ? isUnsafe(member) : typeof member === "object") {
        path.push(pointer(name))
        collect(member, path, faults)
        path.pop()
      }
    }
  }
}

/** No body of this API is deeper; values of unknown members are not decoded. */
const decodedDepth = 4

/** The part of a body that is decoded to find its faults: the first `maxEntries` entries of each list and object. */
export const decodedPart = ({ extent, value }: Body): unknown =>
  extent.entries > maxEntries ? firstEntries(value, 0) : value

const firstEntries = (value: unknown, depth: number): unknown => {
  if (typeof value !== "object" || value === null || depth > decodedDepth) return value
  if (Array.isArray(value)) return value.slice(0, maxEntries).map((item) => firstEntries(item, depth + 1))
  return Object.fromEntries(
    Object.entries(value)
      .slice(0, maxEntries)
      .map(([name, member]) => [name, firstEntries(member, depth + 1)])
  )
}
