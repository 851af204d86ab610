/**
 * Faults of a body that depend on no schema: nesting too deep, too many entries, unsafe characters (U+0000, unpaired surrogates).
 * They bound the work of decoding (contract §1).
 */
import { type LocatedFault, locationOf, maxFaults } from "../../api/schema/Locations.ts"
import { isUnsafe, unsafeMessage } from "../../platform/UnsafeText.ts"

/** Maximum nesting of a body. */
export const maxDepth = 32

/** Maximum number of entries of a list or an object. No list of the API takes more. */
const maxEntries = 1_000

/** Maximum number of entries of all lists and objects of a body. */
const maxEntriesInAll = 6_000

export const tooManyInAll: LocatedFault = ["body", `must have at most ${maxEntriesInAll} entries in all`]

/**
 * Whether a JSON text has more members than a body may have entries. Parsing an object with other names than those before costs
 * about 2 µs. What looks like the end of a name counts as one, so no string of a valid body has as many.
 */
export const hasTooManyMembers = (text: string): boolean => {
  // A member has at least five characters, with its comma.
  if (text.length < 5 * maxEntriesInAll) return false
  let count = 0
  for (let i = 1; i < text.length; i++) {
    if (text.charCodeAt(i) === 58 && endsName.has(text.charCodeAt(i - 1)) && ++count > maxEntriesInAll) return true
  }
  return false
}

/** A quotation mark, or white space that may follow it. */
const endsName = new Set([34, 32, 9, 10, 13])

export interface Body {
  /** The parsed body. */
  readonly value: unknown
  readonly faults: ReadonlyArray<LocatedFault>
  /** Whether the body is small enough to be decoded. If it is not, that is its only fault. */
  readonly isDecodable: boolean
}

interface Walk {
  readonly path: Array<string | number>
  readonly faults: Array<LocatedFault>
  /** Number of entries so far, of all lists and objects. */
  entries: number
  /** The fault that ends the walk. */
  excess: LocatedFault | undefined
}

export const checkBody = (value: unknown): Body => {
  const walk: Walk = { path: [], faults: [], entries: 0, excess: undefined }
  visit(value, walk)
  const { excess, faults } = walk
  return { value, faults: excess === undefined ? faults : [excess], isDecodable: excess === undefined }
}

/** The nesting, which is checked on the way, bounds the recursion. */
const visit = (value: unknown, walk: Walk): void => {
  if (typeof value === "string") {
    if (isUnsafe(value)) report(walk, unsafeMessage)
  } else if (Array.isArray(value)) {
    enter(value.length, walk)
    for (let i = 0; i < value.length && walk.excess === undefined; i++) visitEntry(i, value[i], walk)
  } else if (typeof value === "object" && value !== null) {
    const names = Object.keys(value)
    enter(names.length, walk)
    for (let i = 0; i < names.length && walk.excess === undefined; i++) {
      const name = names[i] ?? ""
      if (isUnsafe(name)) report(walk, `has a member whose name ${unsafeMessage}`)
      else visitEntry(name, Reflect.get(value, name), walk)
    }
  }
}

const visitEntry = (name: string | number, value: unknown, walk: Walk): void => {
  walk.path.push(name)
  visit(value, walk)
  walk.path.pop()
}

/** Counts a list or an object with this number of entries. */
const enter = (entries: number, walk: Walk): void => {
  walk.entries += entries
  if (walk.path.length >= maxDepth) walk.excess = ["body", `must not be nested deeper than ${maxDepth} levels`]
  else if (entries > maxEntries)
    walk.excess = [locationOf("body", walk.path), `must have at most ${maxEntries} entries`]
  else if (walk.entries > maxEntriesInAll) walk.excess = tooManyInAll
}

const report = ({ faults, path }: Walk, message: string): void => {
  if (faults.length <= maxFaults) faults.push([locationOf("body", path), message])
}
