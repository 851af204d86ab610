/**
 * Encrypts secrets in the database. A secret is sealed with AES-256-GCM under a key derived from `SECRET_KEY`, and is bound to
 * the record that holds it. Keys from `SECRET_KEY_PREVIOUS` only open values that were sealed earlier.
 *
 * A sealed value is nonce ‖ ciphertext ‖ tag, with a random nonce (NIST SP 800-38D, 8.2). The keys are tried in their order.
 *
 * Secrets are opened with `node:crypto`, because every signed delivery opens a secret and `effect/crypto` is asynchronous.
 */
import { Array, Context, Data, Effect, Layer, Redacted } from "effect"
import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto"
import { SecretKey } from "./SecretKey.ts"

/** No key opens the sealed value, or it was sealed for another owner. */
export class SecretUnreadable extends Data.TaggedError("SecretUnreadable") {}

/** The record that holds a secret: kind, project and id. A value opens only for the owner that it was sealed for. */
type Owner = ReadonlyArray<string>

interface Opened {
  readonly secret: Redacted.Redacted
  /** The index of the key that opened the value. 0 is `SECRET_KEY`; from 1 on, the keys of `SECRET_KEY_PREVIOUS`. */
  readonly key: number
}

const nonceLength = 12
const tagLength = 16

export class SecretBox extends Context.Service<
  SecretBox,
  {
    /** Seals a secret under the current key. The result differs each time. */
    readonly seal: (owner: Owner, secret: Redacted.Redacted) => Effect.Effect<Uint8Array>
    readonly open: (owner: Owner, sealed: Uint8Array) => Effect.Effect<Redacted.Redacted, SecretUnreadable>
    readonly examine: (owner: Owner, sealed: Uint8Array) => Effect.Effect<Opened, SecretUnreadable>
  }
>()("developer-api/secrets/SecretBox") {
  static readonly layer = Layer.effect(
    SecretBox,
    Effect.gen(function* () {
      const keys = Array.map((yield* SecretKey).deriveAll("secrets at rest"), Redacted.value)

      const examine = (owner: Owner, sealed: Uint8Array) =>
        Effect.suspend((): Effect.Effect<Opened, SecretUnreadable> => {
          for (const [key, secret] of keys.entries()) {
            const text = decrypted(secret, owner, sealed)
            if (text !== undefined) return Effect.succeed({ secret: Redacted.make(text), key })
          }
          return Effect.fail(new SecretUnreadable())
        })

      return {
        seal: (owner, secret) => Effect.sync(() => encrypted(keys[0], owner, Redacted.value(secret))),
        open: (owner, sealed) => Effect.map(examine(owner, sealed), ({ secret }) => secret),
        examine
      }
    })
  )

  static readonly layerOfSettings = Layer.provide(SecretBox.layer, SecretKey.layer)
}

const boundTo = (owner: Owner) => Buffer.from(JSON.stringify(owner))

const encrypted = (key: Uint8Array, owner: Owner, text: string): Uint8Array => {
  const nonce = randomBytes(nonceLength)
  const cipher = createCipheriv("aes-256-gcm", key, nonce).setAAD(boundTo(owner))
  return Buffer.concat([nonce, cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag()])
}

/** Returns the secret; undefined if the value was sealed under another key or for another owner. */
const decrypted = (key: Uint8Array, owner: Owner, sealed: Uint8Array): string | undefined => {
  try {
    const decipher = createDecipheriv("aes-256-gcm", key, sealed.subarray(0, nonceLength))
      .setAAD(boundTo(owner))
      .setAuthTag(sealed.subarray(-tagLength))
    return Buffer.concat([decipher.update(sealed.subarray(nonceLength, -tagLength)), decipher.final()]).toString("utf8")
  } catch {
    return undefined
  }
}
