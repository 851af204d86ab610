/** Parses JSON that operators give. Faults name the place, but do not quote the text, which may be a secret. */
import { Result } from "effect"
import type { Fault } from "../../api/schema/Faults.ts"
import { isUnsafe, unsafeMessage } from "../../platform/Text.ts"

/** Maximum nesting, so that recursive functions do not exhaust the stack. */
const maxDepth = 64

/** Parses JSON text, with or without a byte order mark. Fails with the line and column at which the text becomes invalid (from 1, in UTF-16 code units). */
export const parseJson = (given: string): Result.Result<unknown, string> => {
  const text = given.replace(/^\uFEFF/, "")
  return Result.try({
    try: (): unknown => JSON.parse(text),
    // Not the parser's message, because it quotes the text, which may contain secrets.
    catch: () => {
      const before = text.slice(0, offsetOfFault(text)).split("\n")
      return `invalid JSON at line ${before.length}, column ${(before.at(-1)?.length ?? 0) + 1}`
    }
  })
}

/**
 * Returns the offset of the first character that makes the text invalid: the length of the longest prefix that could be
 * continued to valid JSON. Uses a binary search, because the parser reports an offset only for some faults.
 */
const offsetOfFault = (text: string): number => {
  let [valid, faulty] = [0, text.length + 1]
  while (faulty - valid > 1) {
    const middle = Math.floor((valid + faulty) / 2)
    if (canContinue(text.slice(0, middle))) valid = middle
    else faulty = middle
  }
  return valid
}

/** Whether a text is valid JSON or the beginning of valid JSON. */
const canContinue = (text: string): boolean => {
  try {
    JSON.parse(text)
    return true
  } catch (error) {
    const message = error instanceof Error ? error.message : ""
    const position = /at position (\d+) \(line \d+ column \d+\)$/.exec(message)?.[1]
    return message === "Unexpected end of JSON input" || position === String(text.length)
  }
}

/** Lists faults that no schema checks: text that the database cannot store, infinite numbers and too deep nesting. */
export const faultsOfJson = (root: unknown): ReadonlyArray<Fault> => {
  const faults: Array<Fault> = []
  const visit = (value: unknown, path: ReadonlyArray<PropertyKey>): void => {
    if (typeof value === "string" && isUnsafe(value)) faults.push({ path, message: unsafeMessage })
    // `JSON.parse` reads a number that is too large as Infinity, which JSON cannot represent.
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
