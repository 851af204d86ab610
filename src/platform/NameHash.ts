/**
 * Hashes of names, for collections whose entries change with every request. If a new text is the key of a map, V8 copies it to
 * the old generation, where it stays until the next major garbage collection. A number is not copied.
 */
import { randomInt } from "node:crypto"

/** The seed is random, so that callers can't choose names with the same hash. */
const seed = randomInt(2 ** 32)

const prime = 0x01000193

/** Returns 32 bits (FNV-1a) of a name, which is a list of texts. */
export const hashOf = (...name: ReadonlyArray<string>): number => {
  let hash = seed
  for (const text of name) {
    for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), prime)
    // 0x10000 separates the texts, because it is no UTF-16 code unit. So ["a", "bc"] and ["ab", "c"] have different hashes.
    hash = Math.imul(hash ^ 0x10000, prime)
  }
  // The low bits depend on fewer bits of the characters than the high bits, so the high bits are mixed into them.
  return hash ^ (hash >>> 15)
}
