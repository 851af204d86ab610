/** JSON in its one canonical form (RFC 8785): members sorted by UTF-16 code units, ECMAScript numbers, no spaces. */
import { Predicate } from "effect"

export const canonicalJson = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map((item) => canonicalJson(item)).join(",")}]`
  if (!Predicate.isObject(value)) return JSON.stringify(value) ?? "null"
  let members = ""
  for (const name of Object.keys(value).toSorted()) {
    const member = value[name]
    if (member === undefined) continue
    members += `${members === "" ? "" : ","}${JSON.stringify(name)}:${canonicalJson(member)}`
  }
  return `{${members}}`
}
