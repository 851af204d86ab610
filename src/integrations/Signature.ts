/** Signatures of outbound webhooks: Standard Webhooks 1.0, symmetric (`v1`). */
import { Effect, Redacted } from "effect"
import { createHmac, randomBytes } from "node:crypto"

const prefix = "whsec_"

/** A signing secret: `whsec_`, then 32 random bytes in base64. */
export const newSecret: Effect.Effect<Redacted.Redacted> = Effect.sync(() =>
  Redacted.make(`${prefix}${randomBytes(32).toString("base64")}`)
)

/**
 * The value of `webhook-signature`: for each secret, in order, `v1,` and the base64 HMAC-SHA-256 of `id.timestamp.body`,
 * separated by spaces. The timestamp is in seconds; the body is what is sent, to the byte.
 */
export const signatures = (
  secrets: ReadonlyArray<Redacted.Redacted>,
  id: string,
  timestampSeconds: number,
  body: string | Uint8Array
): string =>
  secrets
    .map((secret) => {
      const key = Buffer.from(Redacted.value(secret).slice(prefix.length), "base64")
      const mac = createHmac("sha256", key).update(`${id}.${timestampSeconds}.`).update(body)
      return `v1,${mac.digest("base64")}`
    })
    .join(" ")
