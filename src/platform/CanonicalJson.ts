/** JSON in its one canonical form (RFC 8785): members sorted by UTF-16 code units, ECMAScript numbers, no spaces. */

/** Serialises a JSON value; members that are `undefined` count as absent. */
export const canonicalJson = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map((item) => canonicalJson(item)).join(",")}]`
  if (typeof value === "object" && value !== null) {
    const members = Object.entries(value)
      .filter(([, member]) => member !== undefined)
      .sort(([left], [right]) => (left < right ? -1 : 1))
      .map(([name, member]) => `${JSON.stringify(name)}:${canonicalJson(member)}`)
    return `{${members.join(",")}}`
  }
  return JSON.stringify(value) ?? "null"
}
