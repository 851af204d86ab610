/** Signatures of outbound deliveries: Standard Webhooks 1.0, symmetric (`v1`). */
import { Effect, Redacted } from "effect"
import { createHmac, createSecretKey, type KeyObject, randomBytes } from "node:crypto"

const prefix = "whsec_"

/** A signing secret: `whsec_`, then 32 random bytes in base64. */
export const newSecret: Effect.Effect<Redacted.Redacted> = Effect.sync(() =>
  Redacted.make(`${prefix}${randomBytes(32).toString("base64")}`)
)

/** Keys of the secrets that are still referenced. */
const keys = new WeakMap<Redacted.Redacted, KeyObject>()

/** Decodes a secret, once. One that was made elsewhere may have no prefix, and either base64 alphabet. */
const keyOf = (secret: Redacted.Redacted) => {
  const known = keys.get(secret)
  if (known !== undefined) return known
  const text = Redacted.value(secret)
  const key = createSecretKey(text.startsWith(prefix) ? text.slice(prefix.length) : text, "base64")
  keys.set(secret, key)
  return key
}

/**
 * Returns the value of `webhook-signature`: for each secret, in order, `v1,` and the base64 HMAC-SHA-256 of
 * `id.timestamp.body`, separated by spaces. The timestamp is in seconds; the body has the bytes that are sent.
 */
export const signatures = (
  secrets: ReadonlyArray<Redacted.Redacted>,
  id: string,
  timestampSeconds: number,
  body: string | Uint8Array
): string =>
  secrets
    .map((secret) => {
      const mac = createHmac("sha256", keyOf(secret)).update(`${id}.${timestampSeconds}.`).update(body)
      return `v1,${mac.digest("base64")}`
    })
    .join(" ")

/** Returns the three headers of a signed body. `now` is in milliseconds. */
export const signedHeaders = (
  secrets: ReadonlyArray<Redacted.Redacted>,
  id: string,
  now: number,
  body: string | Uint8Array
) => {
  const timestamp = Math.floor(now / 1000)
  return {
    "webhook-id": id,
    "webhook-timestamp": String(timestamp),
    "webhook-signature": signatures(secrets, id, timestamp, body)
  }
}
