/**
 * Finds all faults of all parts of a request, for one problem (contract §1). Those of a body that depend on no schema bound the work
 * of decoding: nesting too deep, too many entries, unsafe characters (U+0000, unpaired surrogates).
 */
import { Effect, Schema } from "effect"
import type * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import { faultDetail, groupFaults, type LocatedFault, locationOf, maxFaults } from "../../api/schema/Locations.ts"
import { ValidationFailed } from "../../api/Problems.ts"
import { faultsOfBody, faultsOfSlot, strict, unknownMembers } from "../../api/schema/Shape.ts"
import { isUnsafe, unsafeMessage } from "../../platform/Text.ts"
import { type BodyLimits, usualBody } from "../../api/Requests.ts"

/** The parts of a request, over HTTP or as a tool call, before they are decoded. */
export interface Parts {
  readonly params: Readonly<Record<string, unknown>>
  readonly query: Readonly<Record<string, unknown>>
  readonly headers: Readonly<Record<string, unknown>>
  /** Undefined if the operation takes no body. */
  readonly body: Body | undefined
  /** Faults that were found while the parts were read. The decoders can't find these. */
  readonly faults: ReadonlyArray<LocatedFault>
}

/** Compiles the functions that find the faults of requests of an operation. */
export const faultsOf = (endpoint: HttpApiEndpoint.Top) => {
  const query = endpoint.query === undefined ? undefined : Schema.toCodecArrayFromSingle(endpoint.query)
  const bodySchemas = [...endpoint.payload.values()].flatMap(({ schemas }) => schemas)

  /**
   * Lists the faults that the decoders do not see: the given `faults`, those of the body's text, and, if the operation takes no query
   * parameters, those that were sent.
   */
  const textFaults = ({ body, faults, query: sent }: Parts): ReadonlyArray<LocatedFault> =>
    concatenate(
      faults,
      query === undefined ? unknownMembers("query", sent) : none,
      body === undefined ? none : body.faults
    )

  /** Gathers every fault. A fault in `faults` replaces the faults that decoding reports at the same location. */
  const refuse = (raw: Parts, faults: ReadonlyArray<LocatedFault>) => {
    const { body } = raw
    const located = new Set(faults.map(([location]) => location))
    const found = [
      ...faultsOfSlot("path", endpoint.params, raw.params, lenient),
      ...faultsOfSlot("header", endpoint.headers, raw.headers, lenient),
      ...faultsOfSlot("query", query, raw.query, strict),
      ...(body?.isDecodable === true ? bodySchemas.flatMap((schema) => faultsOfBody(schema, body.value)) : [])
    ]
    const grouped = groupFaults([
      ...faults,
      ...found.filter(([location]) => !located.has(location) && !isUnsafe(location))
    ])
    return Effect.fail(new ValidationFailed({ detail: faultDetail(grouped), errors: grouped.errors }))
  }

  return { refuse, textFaults }
}

/** The options for path parameters and headers. Names that are not in the schema are ignored. */
const lenient = { errors: "all" } as const

export const none: ReadonlyArray<LocatedFault> = []

/** The lists are almost always empty. Then no new list is made. */
export const concatenate = (...lists: ReadonlyArray<ReadonlyArray<LocatedFault>>): ReadonlyArray<LocatedFault> =>
  lists.every(({ length }) => length === 0) ? none : lists.flat()

/** Maximum nesting of a body. */
const maxDepth = 32

/** Maximum number of entries of one list or object. No list of the API takes more. */
const maxEntries = 1_000

const tooMany = (limits: BodyLimits, counted: "entries" | "members"): LocatedFault => [
  "body",
  `must have at most ${limits[counted]} ${counted} in all`
]

/**
 * Counts the members and entries of a JSON text, and returns a fault if there are too many. Such a text is not parsed, because each new
 * name of a member costs the parser about 2 µs. In a text of the usual size, entries are counted only after it is parsed.
 */
export const excessOf = (text: string, limits: BodyLimits): LocatedFault | undefined => {
  // A member has at least five characters, with its comma.
  if (text.length < 5 * limits.members) return undefined
  const maxEntries = text.length > usualBody.bytes ? limits.entries : Infinity
  let [entries, members] = [0, 0]
  for (let i = 0; i < text.length; i++) {
    const character = text.charCodeAt(i)
    if (character === quote) {
      do i = text.indexOf('"', i + 1)
      while (i > 0 && isEscaped(text, i))
      if (i < 0) return undefined
    } else if (character === colon) {
      if (++members > limits.members) return tooMany(limits, "members")
    } else if (character === comma || character === bracket || character === brace) {
      if (++entries > maxEntries) return tooMany(limits, "entries")
    }
  }
  return undefined
}

const [quote, colon, comma, bracket, brace, backslash] = [34, 58, 44, 91, 123, 92]

/** Whether an odd number of backslashes is before a character. */
const isEscaped = (text: string, at: number): boolean => {
  let from = at
  while (text.charCodeAt(from - 1) === backslash) from--
  return (at - from) % 2 === 1
}

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
  readonly limits: BodyLimits
  /** Number of entries so far, of all lists and objects. */
  entries: number
  /** The fault that ends the walk. */
  excess: LocatedFault | undefined
}

export const checkBody = (value: unknown, limits: BodyLimits): Body => {
  const walk: Walk = { path: [], faults: [], limits, entries: 0, excess: undefined }
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
  else if (walk.entries > walk.limits.entries) walk.excess = tooMany(walk.limits, "entries")
}

const report = ({ faults, path }: Walk, message: string): void => {
  if (faults.length <= maxFaults) faults.push([locationOf("body", path), message])
}
