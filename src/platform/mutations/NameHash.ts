/**
 * Hashes of names, for maps and sets whose entries come and go with requests. V8 copies each new text that is a key of a map to
 * the old generation, where it stays until the next major collection.
 */
import { randomInt } from "node:crypto"

/** Callers must not be able to choose names with the same hash. */
const seed = randomInt(2 ** 32)

const prime = 0x01000193

/** Returns 32 bits (FNV-1a) of a name, which is a list of texts. */
export const hashOf = (...name: ReadonlyArray<string>): number => {
  let hash = seed
  for (const text of name) {
    for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), prime)
    // Not a character of a text: lists of other parts have other hashes.
    hash = Math.imul(hash ^ 0x10000, prime)
  }
  // Mixes the high bits, which all characters have changed, into the low ones.
  return hash ^ (hash >>> 15)
}
