/** Ids: a readable prefix, then a UUIDv7 (RFC 9562) without hyphens, so that they sort by age. */
import { Clock, Effect } from "effect"
import { randomUUID } from "node:crypto"

/** `cli_0198…`: 48 bits of milliseconds, the version, and the 74 random bits of a UUIDv4, in lower-case hex. */
export const newId = (prefix: string): Effect.Effect<string> =>
  Effect.map(Clock.currentTimeMillis, (now) => {
    const random = randomUUID()
    return `${firstIdAt(prefix, now)}7${random.slice(15, 18)}${random.slice(19, 23)}${random.slice(24)}`
  })

/** The lower bound of the ids that were created at a time or later. */
export const firstIdAt = (prefix: string, millis: number): string =>
  `${prefix}_${Math.max(0, millis).toString(16).padStart(12, "0")}`
