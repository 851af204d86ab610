/**
 * Ids: a readable prefix, then a UUIDv7 (RFC 9562) without hyphens. So ids sort by their time of creation. `hashOf` hashes names that
 * consist of ids, such as a project's id and an idempotency key.
 */
import { Clock, Effect } from "effect"
import { randomInt, randomUUID } from "node:crypto"

/** Returns an id such as `cli_0198…`: 48 bits of milliseconds, the version, and 74 random bits, in lower-case hex. */
export const newId = (prefix: string): Effect.Effect<string> =>
  Effect.map(Clock.currentTimeMillis, (now) => {
    const random = randomUUID()
    return `${firstIdAt(prefix, now)}7${random.slice(15, 18)}${random.slice(19, 23)}${random.slice(24)}`
  })

/** Returns a UUIDv7 of the present. */
export const newUuid = (): string => {
  const time = Date.now().toString(16).padStart(12, "0")
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`
}

/** Returns a lower bound of all ids that are created at `millis` or later. */
export const firstIdAt = (prefix: string, millis: number): string =>
  `${prefix}_${Math.max(0, millis).toString(16).padStart(12, "0")}`

/** The seed is random, so that callers can't choose names with the same hash. */
const seed = randomInt(2 ** 32)

const prime = 0x01000193

/**
 * Returns a hash of 32 bits (FNV-1a) of a name, which is a list of texts. Collections whose entries change with every request have
 * hashes as their keys: if a new text is the key of a map, V8 copies it to the old generation, where it stays until the next major
 * garbage collection. A number is not copied.
 */
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
