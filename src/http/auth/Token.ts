/**
 * API tokens (contract §3): `dk_`, the key id (12 characters), `_`, the secret (32 characters), and the CRC-32 of everything
 * before it (6 characters). Because of the checksum, a mistyped token is refused without a look-up in the database.
 */
import { Effect, Option, Redacted } from "effect"
import { hash as oneShotHash, randomInt, timingSafeEqual } from "node:crypto"
import { crc32 } from "node:zlib"
import { KeyId } from "../../api/schema/Ids.ts"

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

/** The form of a token. The groups are the key id and the checksum. */
const pattern = /^dk_([0-9A-Za-z]{12})_[0-9A-Za-z]{32}([0-9A-Za-z]{6})$/

const randomText = (length: number) => {
  let text = ""
  for (let i = 0; i < length; i++) text += alphabet.charAt(randomInt(alphabet.length))
  return text
}

/** CRC-32 (ISO-HDLC, as in zlib) in base62, left-padded with `0` to 6 characters. */
export const checksum = (text: string): string => {
  let rest = crc32(text)
  let digits = ""
  for (let i = 0; i < 6; i++) {
    digits = alphabet.charAt(rest % 62) + digits
    rest = Math.floor(rest / 62)
  }
  return digits
}

export const generate = (
  cell: Option.Option<string>
): Effect.Effect<{ readonly keyId: KeyId; readonly token: Redacted.Redacted }> =>
  Effect.sync(() => {
    const start = Option.getOrElse(cell, () => "")
    const keyId = KeyId.make(start + randomText(12 - start.length))
    const body = `dk_${keyId}_${randomText(32)}`
    return { keyId, token: Redacted.make(body + checksum(body)) }
  })

/** What is kept of a presented token: the id of its key, and the hash of the token. */
export interface Presented {
  readonly keyId: KeyId
  readonly hash: Uint8Array
}

export const present = (text: string): Presented | undefined => {
  const match = pattern.exec(text)
  return match?.[1] !== undefined && match[2] === checksum(text.slice(0, -6))
    ? { keyId: KeyId.make(match[1]), hash: hashOf(text) }
    : undefined
}

/** Returns the SHA-256 of the whole token. The database stores this hash instead of the token. */
export const hash = (token: Redacted.Redacted): Uint8Array => hashOf(Redacted.value(token))

const hashOf = (text: string): Uint8Array => oneShotHash("sha256", text, "buffer")

export const sameHash = (left: Uint8Array, right: Uint8Array): boolean =>
  left.length === right.length && timingSafeEqual(left, right)
