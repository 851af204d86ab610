/** Parses the JSON of operators. Faults name the place, but never quote the text, which may be a secret. */
import { Result } from "effect"
import type { Fault } from "../../api/Faults.ts"
import { isUnsafe, unsafeMessage } from "../../platform/UnsafeText.ts"

/** Maximum nesting. Deeper values would exhaust the stack of recursive functions. */
const maxDepth = 64

const token = new RegExp(
  [
    "([{}\\[\\]:,])",
    '("[^"\\\\\\u0000-\\u001f]*(?:\\\\(?:["\\\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\\\\u0000-\\u001f]*)*")',
    "(?:-?(?:0|[1-9][0-9]*)(?:\\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null)(?![0-9A-Za-z_.+-])"
  ].join("|"),
  "y"
)

/** The tokens that may follow: a value, a member's name, the colon after it, or a comma or closing bracket. */
type Expected = "value" | "value or ]" | "name" | "name or }" | ":" | "more"

/** Returns the offset at which JSON text becomes invalid. `JSON.parse` reports it for some faults only. */
const offsetOfFault = (text: string): number => {
  const open: Array<"{" | "["> = []
  let expected: Expected = "value"
  let offset = 0
  for (;;) {
    while (" \t\r\n".includes(text.charAt(offset)) && offset < text.length) offset++
    token.lastIndex = offset
    const match: RegExpExecArray | null = token.exec(text)
    if (match === null) return offset
    const [, sign, string] = match
    const next: Expected | undefined =
      sign === undefined ? afterScalar(expected, string !== undefined) : afterSign(expected, sign, open)
    if (next === undefined) return offset
    expected = next
    offset = token.lastIndex
  }
}

const afterScalar = (expected: Expected, isString: boolean): Expected | undefined => {
  if (expected === "value" || expected === "value or ]") return "more"
  return isString && (expected === "name" || expected === "name or }") ? ":" : undefined
}

const afterSign = (expected: Expected, sign: string, open: Array<"{" | "[">): Expected | undefined => {
  const inside = open.at(-1)
  if (sign === ":") return expected === ":" ? "value" : undefined
  if (sign === ",") {
    if (expected !== "more" || inside === undefined) return undefined
    return inside === "{" ? "name" : "value"
  }
  if (sign === "{" || sign === "[") {
    if (expected !== "value" && expected !== "value or ]") return undefined
    open.push(sign)
    return sign === "{" ? "name or }" : "value or ]"
  }
  const closes = sign === "}" ? inside === "{" : inside === "["
  if (!closes || (expected !== "more" && !expected.endsWith(` or ${sign}`))) return undefined
  open.pop()
  return "more"
}

/** Parses JSON text, or returns the line and column (from 1, in UTF-16 units) at which it becomes invalid. */
export const parseJson = (text: string): Result.Result<unknown, string> => {
  try {
    return Result.succeed(JSON.parse(text))
  } catch {
    // The parser's message quotes the text, which may be a secret.
    const before = text.slice(0, offsetOfFault(text)).split("\n")
    return Result.fail(`invalid JSON at line ${before.length}, column ${(before.at(-1)?.length ?? 0) + 1}`)
  }
}

/** Lists faults that no schema checks: text that the database cannot store, infinite numbers and too deep nesting. */
export const faultsOfJson = (root: unknown): ReadonlyArray<Fault> => {
  const faults: Array<Fault> = []
  const visit = (value: unknown, path: ReadonlyArray<PropertyKey>): void => {
    if (typeof value === "string" && isUnsafe(value)) faults.push({ path, message: unsafeMessage })
    // `JSON.parse` reads it as Infinity, which JSON cannot represent.
    if (typeof value === "number" && !Number.isFinite(value)) faults.push({ path, message: "must be a smaller number" })
    if (typeof value !== "object" || value === null) return
    if (path.length > maxDepth) {
      faults.push({ path, message: `must not be nested more than ${maxDepth} deep` })
      return
    }
    for (const [key, member] of Object.entries(value)) {
      const at = [...path, key]
      if (isUnsafe(key)) faults.push({ path: at, message: `${unsafeMessage} in its name` })
      visit(member, at)
    }
  }
  visit(root, [])
  return faults
}
