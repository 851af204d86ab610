/** The path and query of a request as they were sent, and faults that the router would accept. */
import { JsonPointer } from "effect"
import type { LocatedFault } from "../api/Locations.ts"
import { isUnsafe, unsafeMessage } from "../platform/UnsafeText.ts"

/** Splits a request target at its first `?`. */
export const splitTarget = (target: string): readonly [path: string, query: string] => {
  const mark = target.indexOf("?")
  return mark === -1 ? [target, ""] : [target.slice(0, mark), target.slice(mark + 1)]
}

/** Whether a path has an empty segment or a trailing slash, which the router would match as an empty id (contract §1). */
export const hasEmptySegment = (path: string): boolean => path.length > 1 && (path.includes("//") || path.endsWith("/"))

const malformedPercent = /%(?![0-9A-Fa-f]{2})/g

/**
 * Returns a target that the router reads correctly. `;` and `#` are characters of a segment, not the end of the path,
 * and malformed percent-encoding is escaped, so that the route is found and the fault is reported after the checks
 * before it.
 */
export const routable = (target: string): string => {
  if (!/[%;#]/.test(target)) return target
  const [path, query] = splitTarget(target)
  const segments = path
    .split("/")
    .map((segment) => (decode(segment) === undefined ? encodeURIComponent(segment) : segment))
  const escaped = segments.join("/").replaceAll(";", "%3B").replaceAll("#", "%23")
  return query === "" ? escaped : `${escaped}?${query.replaceAll("#", "%23").replace(malformedPercent, "%25")}`
}

/** Percent-decodes UTF-8. Returns undefined if it is malformed. */
const decode = (text: string): string | undefined => {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

const malformedMessage = "must be percent-encoded UTF-8"

/** Lists the faults in the target of a request to `template` (`/clients/:clientId`). */
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

const queryFaults = (query: string) => {
  const seen = new Set<string>()
  return query.split("&").flatMap((pair): ReadonlyArray<LocatedFault> => {
    if (pair === "") return []
    const [rawName = "", ...rest] = pair.replaceAll("+", " ").split("=")
    const name = decode(rawName)
    const location = `query/${JsonPointer.escapeToken(name === undefined || isUnsafe(name) ? rawName : name)}`
    const repeated: ReadonlyArray<LocatedFault> = seen.has(location) ? [[location, "must not be repeated"]] : []
    seen.add(location)
    return [...repeated, ...(name === undefined ? faultOf(location, name) : faultOf(location, decode(rest.join("="))))]
  })
}
