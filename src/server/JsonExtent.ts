/** The extent of a JSON text: its nesting and its longest list or object, measured in one pass without parsing. */

/** Maximum nesting of a body (contract §1). */
export const maxDepth = 32

/** Maximum number of entries of a list or object. No list of the API takes more. */
export const maxEntries = 1_000

export interface JsonExtent {
  /** Deepest nesting of lists and objects; the scan stops above `maxDepth`. */
  readonly depth: number
  /** Entries of the longest list or object. */
  readonly entries: number
}

const quote = 34
const comma = 44
const openBracket = 91
const backslash = 92
const closeBracket = 93
const openBrace = 123
const closeBrace = 125

/** Measures a text. For malformed JSON the result is a bound for what a parser could reach before it fails. */
export const extentOf = (text: string): JsonExtent => {
  // A nesting of 33 or a list of 1,001 entries takes more than 33 characters.
  if (text.length <= maxDepth) return { depth: 0, entries: 0 }
  const commas = new Uint32Array(maxDepth + 1)
  let depth = 0
  let deepest = 0
  let mostCommas = 0
  for (let i = 0; i < text.length; i++) {
    switch (text.charCodeAt(i)) {
      case quote:
        i = endOfString(text, i)
        break
      case comma: {
        const count = (commas[depth] ?? 0) + 1
        commas[depth] = count
        if (count > mostCommas) mostCommas = count
        break
      }
      case openBracket:
      case openBrace:
        depth++
        if (depth > deepest) deepest = depth
        if (depth > maxDepth) return { depth, entries: mostCommas + 1 }
        commas[depth] = 0
        break
      case closeBracket:
      case closeBrace:
        if (depth > 0) depth--
        break
      default:
    }
  }
  return { depth: deepest, entries: mostCommas + 1 }
}

/** Index of the quote that ends the string which starts at `start`; the end of the text where none does. */
const endOfString = (text: string, start: number): number => {
  for (let i = start + 1; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === quote) return i
    if (code === backslash) i++
  }
  return text.length
}
