/**
 * Encrypts secrets in the database. A secret is sealed with AES-256-GCM under a key derived from `SECRET_KEY`, and is bound to
 * the record that holds it. Keys from `SECRET_KEY_PREVIOUS` only open values that were sealed earlier.
 *
 * A sealed value is nonce ‖ ciphertext ‖ tag. The first bytes of the nonce are the id of the key, so that the right key is tried
 * first. The other 72 bits are random: among a million secrets of one key, two have the same nonce with a probability of 10^-10
 * (NIST SP 800-38D, 8.2). Older values have a random nonce without a key id; every key is tried for them.
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

export interface Opened {
  readonly secret: Redacted.Redacted
  /** The index of the key that opened the value. 0 is `SECRET_KEY`; from 1 on, the keys of `SECRET_KEY_PREVIOUS`. */
  readonly key: number
  /** Whether the value contains the id of the key that opened it. */
  readonly identified: boolean
}

const nonceLength = 12
const tagLength = 16
const idLength = 3

interface Key {
  readonly secret: Uint8Array
  readonly id: Buffer
}

export class SecretBox extends Context.Service<
  SecretBox,
  {
    /** Seals a secret under the current key. The result differs each time. */
    readonly seal: (owner: Owner, secret: Redacted.Redacted) => Effect.Effect<Uint8Array>
    readonly open: (owner: Owner, sealed: Uint8Array) => Effect.Effect<Redacted.Redacted, SecretUnreadable>
    readonly examine: (owner: Owner, sealed: Uint8Array) => Effect.Effect<Opened, SecretUnreadable>
    /** The ids of the keys in hex, the current one first. */
    readonly keyIds: Array.NonEmptyReadonlyArray<string>
  }
>()("developer-api/platform/secrets/SecretBox") {
  static readonly layer = Layer.effect(
    SecretBox,
    Effect.gen(function* () {
      const { deriveAll } = yield* SecretKey
      const ids = deriveAll("key id").map((id) => Buffer.from(Redacted.value(id).subarray(0, idLength)))
      const keys = Array.map(deriveAll("secrets at rest"), (secret, i): Key => ({
        secret: Redacted.value(secret),
        id: ids[i] ?? Buffer.alloc(0)
      }))
      const current = keys[0]

      const openWithAny = (owner: Owner, sealed: Uint8Array): Opened | undefined => {
        const named = keys.findIndex(({ id }) => id.equals(sealed.subarray(0, idLength)))
        const order = named === -1 ? keys.keys() : [named, ...keys.keys().filter((i) => i !== named)]
        for (const i of order) {
          const text = decrypted((keys[i] ?? current).secret, owner, sealed)
          if (text !== undefined) return { secret: Redacted.make(text), key: i, identified: i === named }
        }
        return undefined
      }
      const examine = (owner: Owner, sealed: Uint8Array) =>
        Effect.suspend(() => {
          const opened = openWithAny(owner, sealed)
          return opened === undefined ? Effect.fail(new SecretUnreadable()) : Effect.succeed(opened)
        })

      return {
        seal: (owner, secret) => Effect.sync(() => encrypted(current, owner, Redacted.value(secret))),
        open: (owner, sealed) => Effect.map(examine(owner, sealed), ({ secret }) => secret),
        examine,
        keyIds: Array.map(keys, ({ id }) => id.toString("hex"))
      }
    })
  )

  static readonly layerOfSettings = Layer.provide(SecretBox.layer, SecretKey.layer)
}

const boundTo = (owner: Owner) => Buffer.from(JSON.stringify(owner))

const encrypted = ({ id, secret }: Key, owner: Owner, text: string): Uint8Array => {
  const nonce = Buffer.concat([id, randomBytes(nonceLength - idLength)])
  const cipher = createCipheriv("aes-256-gcm", secret, nonce).setAAD(boundTo(owner))
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
