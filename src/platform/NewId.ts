/** Ids that the service makes: a readable prefix, then a UUIDv7 (RFC 9562) without hyphens, so they sort by age. */
import { Clock, Effect } from "effect"
import { randomBytes } from "node:crypto"

/** `cli_0198…`: 48 bits of milliseconds, the version, and 74 random bits in lower-case hex. */
export const newId = (prefix: string): Effect.Effect<string> =>
  Effect.map(Clock.currentTimeMillis, (now) => {
    const bytes = randomBytes(16)
    bytes.writeUIntBE(now, 0, 6)
    bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x70, 6)
    bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8)
    return `${prefix}_${bytes.toString("hex")}`
  })
