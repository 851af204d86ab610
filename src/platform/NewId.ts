/** Ids: a readable prefix, then a UUIDv7 (RFC 9562) without hyphens. So ids sort by their time of creation. */
import { Clock, Effect } from "effect"
import { randomUUID } from "node:crypto"

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
