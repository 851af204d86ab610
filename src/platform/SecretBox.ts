/** Secrets at rest: AES-256-GCM under a key derived from `SECRET_KEY`, bound to the record that holds them. */
import { Context, Data, Effect, Layer, Redacted } from "effect"
import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto"
import { SecretKey } from "./SecretKey.ts"

/** A sealed secret that this key, or this record, did not seal. */
export class SecretUnreadable extends Data.TaggedError("SecretUnreadable") {}

const nonceLength = 12
const tagLength = 16

export class SecretBox extends Context.Service<
  SecretBox,
  {
    /** `owner` names the record (project and id): what is sealed for one can't be opened as another's. */
    readonly seal: (owner: ReadonlyArray<string>, secret: Redacted.Redacted) => Effect.Effect<Uint8Array>
    readonly open: (
      owner: ReadonlyArray<string>,
      sealed: Uint8Array
    ) => Effect.Effect<Redacted.Redacted, SecretUnreadable>
  }
>()("developer-api/platform/SecretBox") {
  static readonly layer = Layer.effect(
    SecretBox,
    Effect.gen(function* () {
      const key = Redacted.value((yield* SecretKey).derive("secrets at rest"))
      return {
        // nonce ‖ ciphertext ‖ tag; a random nonce is safe for 2^32 secrets under one key (NIST SP 800-38D, 8.3).
        seal: (owner, secret) =>
          Effect.sync(() => {
            const nonce = randomBytes(nonceLength)
            const cipher = createCipheriv("aes-256-gcm", key, nonce).setAAD(Buffer.from(JSON.stringify(owner)))
            const text = Buffer.concat([cipher.update(Redacted.value(secret), "utf8"), cipher.final()])
            return Buffer.concat([nonce, text, cipher.getAuthTag()])
          }),
        open: (owner, sealed) =>
          Effect.try({
            try: () => {
              const decipher = createDecipheriv("aes-256-gcm", key, sealed.subarray(0, nonceLength))
                .setAAD(Buffer.from(JSON.stringify(owner)))
                .setAuthTag(sealed.subarray(-tagLength))
              const text = Buffer.concat([decipher.update(sealed.subarray(nonceLength, -tagLength)), decipher.final()])
              return Redacted.make(text.toString("utf8"))
            },
            catch: () => new SecretUnreadable()
          })
      }
    })
  )
}
