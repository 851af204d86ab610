/**
 * The extent of a JSON text: its nesting and its longest list or object, measured in one pass without parsing. The limits of the
 * extent bound the work of the parser.
 */

/** Maximum nesting of a body (contract §1). */
export const maxDepth = 32

/** Maximum number of entries of a list or object. No list of the API takes more. */
export const maxEntries = 1_000

export interface JsonExtent {
  /** Deepest nesting of lists and objects. The scan stops above the maximum. 0 if the text is too short to exceed a limit. */
  readonly depth: number
  /** Number of entries of the longest list or object. 0 if the text is too short to exceed a limit. */
  readonly entries: number
  /** The text with at most `maxEntries` + 1 entries of each list and object. */
  readonly excerpt: string
  /** Whether the excerpt lacks members of an object. A required member may be among them. */
  readonly omitsMembers: boolean
}

const quote = 34
const comma = 44
const openBracket = 91
const backslash = 92
const closeBracket = 93
const openBrace = 123
const closeBrace = 125

/**
 * Measures a text. `maximum` is the permitted nesting. For malformed JSON the result is an upper bound for what a parser could
 * reach before it fails.
 */
export const extentOf = (text: string, maximum = maxDepth): JsonExtent => {
  // A text this short exceeds no limit: too deep a nesting, or 1,001 entries, takes more characters than `maximum`.
  if (text.length <= maximum) return { depth: 0, entries: 0, excerpt: text, omitsMembers: false }
  const commas = [0]
  const isList = [false]
  let depth = 0
  let deepest = 0
  let mostCommas = 0
  const kept: Array<string> = []
  let keptFrom = 0
  /** Depth of the list or object whose rest is left out; 0 for none. */
  let leavingOut = 0
  let omitsMembers = false
  for (let i = 0; i < text.length; i++) {
    switch (text.charCodeAt(i)) {
      case quote:
        i = endOfString(text, i)
        break
      case comma: {
        const count = (commas[depth] ?? 0) + 1
        commas[depth] = count
        if (count > mostCommas) mostCommas = count
        if (count > maxEntries && leavingOut === 0) {
          kept.push(text.slice(keptFrom, i))
          keptFrom = text.length
          leavingOut = depth
          omitsMembers ||= isList[depth] === false
        }
        break
      }
      case openBracket:
      case openBrace:
        depth++
        if (depth > deepest) deepest = depth
        if (depth > maximum) return { depth, entries: mostCommas + 1, excerpt: "", omitsMembers: false }
        commas[depth] = 0
        isList[depth] = text.charCodeAt(i) === openBracket
        break
      case closeBracket:
      case closeBrace:
        if (leavingOut > 0 && depth === leavingOut) {
          keptFrom = i
          leavingOut = 0
        }
        if (depth > 0) depth--
        break
      default:
    }
  }
  const excerpt = kept.length === 0 ? text : kept.join("") + text.slice(keptFrom)
  return { depth: deepest, entries: mostCommas + 1, excerpt, omitsMembers }
}

/** Returns the index of the quote that ends the string at `start`, or the length of the text if no quote does. */
const endOfString = (text: string, start: number): number => {
  for (let i = start + 1; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === quote) return i
    if (code === backslash) i++
  }
  return text.length
}
