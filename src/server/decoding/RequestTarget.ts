/** The path and query of a request as they were sent, and the faults that the router does not find. */
import { JsonPointer } from "effect"
import type { LocatedFault } from "../../api/schema/Locations.ts"
import { isUnsafe, unsafeMessage } from "../../platform/UnsafeText.ts"
import type { Methods } from "../Routes.ts"

export const splitTarget = (target: string): readonly [path: string, query: string] => {
  const mark = target.indexOf("?")
  return mark === -1 ? [target, ""] : [target.slice(0, mark), target.slice(mark + 1)]
}

/**
 * Whether a path has an empty segment or a trailing slash. The router would accept an empty segment as an empty id (contract
 * §1).
 */
export const hasEmptySegment = (path: string): boolean => path.length > 1 && (path.includes("//") || path.endsWith("/"))

/** Maximum number of parameters of a query (contract §1). Every operation takes fewer. */
export const maxParameters = 100

/** Length of the longest id in a path: 160 characters of four bytes, each byte percent-encoded. */
const longestSegment = 160 * 12

/** The replacement for a segment that can't be an id. It is too long for an id, so each operation refuses it. */
const refusedSegment = "x".repeat(161)

const malformedPercent = /%(?![0-9A-Fa-f]{2})/g

/**
 * Returns a target that the router reads correctly and in bounded time. In the path, segments that are malformed or too long are
 * replaced. In the query, malformed percent-encoding is replaced, and parameters beyond `maxParameters` are left out. So the
 * router finds the route, and these faults are reported later, in the order of the contract's checks. `;` and `#` are treated as
 * characters of a segment. Returns `undefined` if the path does not start with `/`, or if it contains `%`, `;` or `#` and
 * matches no route.
 */
export const routable = (target: string, methods: Methods): string | undefined => {
  // The router ignores the first character of a path, so this function checks that character.
  if (!target.startsWith("/")) return undefined
  const [path, query] = splitTarget(target)
  const parameters = hasTooMany(query) ? query.split("&", maxParameters).join("&") : query
  if (parameters === query && !/[%;#]/.test(target)) return target
  const isEscaped = /[%;#]/.test(path)
  if (isEscaped && methods(path).length === 0) return undefined
  const routed = isEscaped ? path.split("/").map(routableSegment).join("/") : path
  return query === "" ? routed : `${routed}?${parameters.replaceAll("#", "%23").replace(malformedPercent, "%25")}`
}

const routableSegment = (segment: string) =>
  segment.length > longestSegment || decode(segment) === undefined
    ? refusedSegment
    : segment.replaceAll(";", "%3B").replaceAll("#", "%23")

const hasTooMany = (query: string): boolean => {
  let at = -1
  for (let count = 0; count < maxParameters; count++) {
    at = query.indexOf("&", at + 1)
    if (at === -1) return false
  }
  return true
}

const decode = (text: string): string | undefined => {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

const malformedMessage = "must be percent-encoded UTF-8"

/** `template` is a path such as `/clients/:clientId`. */
export const targetFaults = (target: string, template: string): ReadonlyArray<LocatedFault> => {
  const [path, query] = splitTarget(target)
  return [...(path.includes("%") ? pathFaults(path, template) : []), ...(query === "" ? [] : queryFaults(query))]
}

const faultOf = (location: string, decoded: string | undefined): ReadonlyArray<LocatedFault> => {
  if (decoded === undefined) return [[location, malformedMessage]]
  return isUnsafe(decoded) ? [[location, unsafeMessage]] : []
}

const pathFaults = (path: string, template: string) => {
  const segments = path.split("/")
  return template
    .split("/")
    .flatMap((name, i) => (name.startsWith(":") ? faultOf(`path/${name.slice(1)}`, decode(segments[i] ?? "")) : []))
}

export const tooManyParameters: LocatedFault = ["query", `must have at most ${maxParameters} parameters`]

const queryFaults = (query: string) => {
  const seen = new Set<string>()
  const surplus: ReadonlyArray<LocatedFault> = hasTooMany(query) ? [tooManyParameters] : []
  const faults = query.split("&", maxParameters).flatMap((pair): ReadonlyArray<LocatedFault> => {
    if (pair === "") return []
    const [rawName = "", ...rest] = pair.replaceAll("+", " ").split("=")
    const name = decode(rawName)
    const location = `query/${JsonPointer.escapeToken(name === undefined || isUnsafe(name) ? rawName : name)}`
    const repeated: ReadonlyArray<LocatedFault> = seen.has(location) ? [[location, "must not be repeated"]] : []
    seen.add(location)
    return [...repeated, ...(name === undefined ? faultOf(location, name) : faultOf(location, decode(rest.join("="))))]
  })
  return [...surplus, ...faults]
}
