/**
 * What parsing loses of a JSON text: all but the last of several members with the same name, and fractions that disappear when a
 * number is rounded to a double. The caller may have meant the lost value, so such a body is refused (contract §1).
 */
import { JsonPointer } from "effect"
import type { LocatedFault } from "../../api/schema/Locations.ts"
import { isUnsafe } from "../../platform/UnsafeText.ts"
import { type JsonExtent, maxEntries } from "./JsonExtent.ts"

const maxFaults = 100

/**
 * Lists what the parsed value lacks, with locations in the value. The text is walked only if it has more members than the value,
 * or a number with a fraction. A text with too many entries is not walked, because it is refused in any case.
 */
export const lossesOf = (
  text: string,
  { entries, hasFraction, members }: JsonExtent,
  value: unknown
): ReadonlyArray<LocatedFault> =>
  entries > maxEntries || (!hasFraction && members === membersOf(value)) ? none : lossesIn(text)

const none: ReadonlyArray<LocatedFault> = []

const membersOf = (value: unknown): number => {
  if (typeof value !== "object" || value === null) return 0
  let count = 0
  if (Array.isArray(value)) {
    for (const item of value) count += membersOf(item)
  } else {
    for (const member of Object.values(value)) count += 1 + membersOf(member)
  }
  return count
}

/** A name with its colon, another string, a number, or a character that begins, ends or separates entries. */
const token = /("(?:[^"\\]+|\\.)*")(\s*:)?|-?\d[\d.eE+-]*|[[\]{},]/g

/**
 * An object or a list that contains the current token. `names` has the names so far, and is undefined for a list. `entry` is the
 * name or the position of the current entry.
 */
interface Level {
  readonly names: Set<string> | undefined
  entry: string | number
}

/** `text` is well-formed JSON. */
const lossesIn = (text: string): ReadonlyArray<LocatedFault> => {
  const faults: Array<LocatedFault> = []
  const levels: Array<Level> = []
  const report = (fault: string) => {
    const location = levels.map(({ entry }) => JsonPointer.escapeToken(String(entry))).join("/")
    if (!isUnsafe(location)) faults.push([location, fault])
  }
  for (const [found, string, isName] of text.matchAll(token)) {
    if (faults.length >= maxFaults) break
    const level = levels.at(-1)
    if (found === "{") levels.push({ names: new Set(), entry: "" })
    else if (found === "[") levels.push({ names: undefined, entry: 0 })
    else if (found === "}" || found === "]") levels.pop()
    else if (found === ",") {
      if (typeof level?.entry === "number") level.entry++
    } else if (string === undefined) {
      if (level !== undefined && losesFraction(found)) report("must be an integer")
    } else if (isName !== undefined && level !== undefined) {
      level.entry = String(JSON.parse(string))
      if (level.names?.has(level.entry) === true) report("must not be repeated")
      level.names?.add(level.entry)
    }
  }
  return faults
}

/** Whether a number is written with a fraction that rounding to a double loses, so that the parsed number is an integer. */
const losesFraction = (number: string): boolean => {
  if (!Number.isInteger(Number(number))) return false
  const [, whole = "", fraction = "", exponent = "0"] = /^-?(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(number) ?? []
  const digits = (whole + fraction).replace(/0+$/, "")
  const zeros = whole.length + fraction.length - digits.length
  return digits !== "" && zeros < fraction.length - Number(exponent)
}
