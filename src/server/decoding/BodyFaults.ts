/**
 * Faults of a body that depend on no schema: nesting too deep, lists too long, unsafe characters (U+0000, unpaired surrogates).
 */
import { JsonPointer } from "effect"
import type { LocatedFault } from "../../api/schema/Locations.ts"
import { isUnsafe, unsafeMessage } from "../../platform/UnsafeText.ts"
import type { Body } from "./JsonBody.ts"
import { maxDepth, maxEntries } from "./JsonExtent.ts"

export const tooDeep: LocatedFault = ["body", `must not be nested deeper than ${maxDepth} levels`]
const tooManyEntries = `must have at most ${maxEntries} entries`

/** Maximum number of faults that are collected. A response has room for fewer. */
const maxFaults = 1_000

/**
 * A body is JSON in valid UTF-8, where only an escape can produce an unsafe character. A body without such an escape is walked
 * only if it has too many entries.
 */
export const bodyFaults = ({ extent, losses, text, value }: Body): ReadonlyArray<LocatedFault> => {
  if (extent.depth > maxDepth) return [tooDeep]
  const faults = losses.map(([location, fault]): LocatedFault => [`body/${location}`, fault])
  if (extent.entries > maxEntries || unsafeEscape.test(text)) collect(value, ["body"], faults)
  // `collect` counts the entries of the parsed value, where a repeated name is one entry. So it may find no fault although the
  // text has too many entries.
  if (extent.entries > maxEntries && faults.length === 0) faults.push(["body", tooManyEntries])
  return faults
}

const unsafeEscape = /\\u(?:0000|d[89a-f])/i

/** `value` has at most `maxDepth` levels, which bounds the recursion. A location is built only for a fault. */
const collect = (value: unknown, path: Array<string>, faults: Array<LocatedFault>): void => {
  if (faults.length >= maxFaults) return
  if (typeof value === "string") {
    if (isUnsafe(value)) faults.push([path.join("/"), unsafeMessage])
  } else if (Array.isArray(value)) {
    if (value.length > maxEntries) faults.push([path.join("/"), tooManyEntries])
    for (let i = 0; i < Math.min(value.length, maxEntries); i++) collectMember(value[i], i, path, faults)
  } else if (typeof value === "object" && value !== null) {
    const names = Object.keys(value)
    if (names.length > maxEntries) faults.push([path.join("/"), tooManyEntries])
    for (const name of names.slice(0, maxEntries)) {
      if (isUnsafe(name)) faults.push([path.join("/"), `has a member whose name ${unsafeMessage}`])
      else collectMember(Reflect.get(value, name), name, path, faults)
    }
  }
}

const collectMember = (
  member: unknown,
  name: string | number,
  path: Array<string>,
  faults: Array<LocatedFault>
): void => {
  if (typeof member === "string" ? !isUnsafe(member) : typeof member !== "object" || member === null) return
  path.push(JsonPointer.escapeToken(String(name)))
  collect(member, path, faults)
  path.pop()
}

/** Maximum depth of a body that a schema of the API accepts. A deeper value belongs to an unknown member. */
const decodedDepth = 4

/**
 * Maximum number of entries of a list that are decoded to find faults: twice the length of the longest list of the API. A fault
 * costs about 20 µs, and other requests wait meanwhile.
 */
const decodedEntries = 200

/**
 * Returns the part of a body that is decoded to find its faults: the first entries of each list and object, and all members that
 * the schema knows. If known members were left out, a required member could be reported as missing.
 */
export const decodedPart = ({ extent, value }: Body, known: ReadonlySet<string>): unknown =>
  extent.entries > decodedEntries ? firstEntries(value, known, 0) : value

const firstEntries = (value: unknown, known: ReadonlySet<string>, depth: number): unknown => {
  if (typeof value !== "object" || value === null || depth > decodedDepth) return value
  if (Array.isArray(value)) return value.slice(0, decodedEntries).map((item) => firstEntries(item, known, depth + 1))
  return Object.fromEntries(
    Object.keys(value)
      .filter((name, index) => index < decodedEntries || known.has(name))
      .map((name) => [name, firstEntries(Reflect.get(value, name), known, depth + 1)])
  )
}
