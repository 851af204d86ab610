/**
 * The extent of a JSON text: its nesting, the length of its longest list or object, and the number of its members. The extent is
 * measured in one pass without parsing. Limits on the extent bound the work of the parser.
 */

/** Maximum nesting of a body (contract §1). */
export const maxDepth = 32

/** Maximum number of entries of a list or object. No list of the API takes more. */
export const maxEntries = 1_000

export interface JsonExtent {
  /** Deepest nesting of lists and objects. The scan stops above the maximum. */
  readonly depth: number
  /** Number of entries of the longest list or object. */
  readonly entries: number
  /** Number of members of all objects, repeated names included. */
  readonly members: number
  /** Whether a number is written with a fraction or an exponent. */
  readonly hasFraction: boolean
  /** The text with at most `maxEntries` + 1 entries of each list and object. */
  readonly excerpt: string
  /** Whether the excerpt lacks members of an object. A required member may be among them. */
  readonly omitsMembers: boolean
}

const quote = 34
const comma = 44
const point = 46
const colon = 58
const upperE = 69
const openBracket = 91
const backslash = 92
const closeBracket = 93
const lowerE = 101
const openBrace = 123
const closeBrace = 125

/**
 * Measures a text. `maximum` is the permitted nesting. For malformed JSON the result is an upper bound for what a parser could
 * reach before it fails.
 */
export const extentOf = (text: string, maximum = maxDepth): JsonExtent => {
  const commas = [0]
  const isList = [false]
  let depth = 0
  let deepest = 0
  let mostCommas = 0
  let members = 0
  let hasFraction = false
  const kept: Array<string> = []
  let keptFrom = 0
  /** Depth of the list or object whose surplus entries are being left out; 0 for none. */
  let leavingOut = 0
  let omitsMembers = false
  const measured = () => ({ depth: deepest, entries: mostCommas + 1, members, hasFraction })
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
      case colon:
        members++
        break
      case point:
        hasFraction = true
        break
      case lowerE:
      case upperE:
        hasFraction ||= isDigit(text.charCodeAt(i - 1))
        break
      case openBracket:
      case openBrace:
        depth++
        if (depth > deepest) deepest = depth
        if (depth > maximum) return { ...measured(), excerpt: "", omitsMembers: false }
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
  return { ...measured(), excerpt, omitsMembers }
}

const isDigit = (code: number) => code >= 48 && code <= 57

/** Returns the index of the quote that ends the string at `start`, or the length of the text if the string does not end. */
const endOfString = (text: string, start: number): number => {
  for (let i = start + 1; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === quote) return i
    if (code === backslash) i++
  }
  return text.length
}
