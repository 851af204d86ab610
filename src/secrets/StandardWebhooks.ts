/** Signatures of outbound deliveries: Standard Webhooks 1.0, symmetric (`v1`). */
import { Effect, Redacted } from "effect"
import { createHmac, createSecretKey, type KeyObject, randomBytes } from "node:crypto"

const prefix = "whsec_"

export const newSecret: Effect.Effect<Redacted.Redacted> = Effect.sync(() =>
  Redacted.make(`${prefix}${randomBytes(32).toString("base64")}`)
)

/** Decoded keys by secret. An entry lasts as long as its secret is referenced. */
const keys = new WeakMap<Redacted.Redacted, KeyObject>()

/** A secret from another system may lack the prefix, and may use either base64 alphabet. */
const keyOf = (secret: Redacted.Redacted) => {
  const known = keys.get(secret)
  if (known !== undefined) return known
  const text = Redacted.value(secret)
  const key = createSecretKey(text.startsWith(prefix) ? text.slice(prefix.length) : text, "base64")
  keys.set(secret, key)
  return key
}

/**
 * Returns the value of `webhook-signature`: one signature for each secret, in order, separated by spaces. A signature is `v1,` and
 * the HMAC-SHA-256 of `id.timestamp.body` in base64. The timestamp is in seconds. The body is what is sent, byte for byte.
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

/** `now` is in milliseconds since 1970. */
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
