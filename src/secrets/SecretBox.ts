/**
 * Encrypts secrets in the database. A secret is sealed with AES-256-GCM under a key derived from `SECRET_KEY`, and is bound to
 * the record that holds it. Keys from `SECRET_KEY_PREVIOUS` only open values that were sealed earlier.
 *
 * A sealed value is nonce ‖ ciphertext ‖ tag, with a random nonce (NIST SP 800-38D, 8.2). The keys are tried in their order.
 *
 * Secrets are opened with `node:crypto`, because every signed delivery opens a secret and `effect/crypto` is asynchronous.
 */
import { Array, Context, Data, Effect, FileSystem, Layer, Option, Path, Redacted } from "effect"
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto"
import { Settings } from "../platform/Settings.ts"
import { isSecretKey } from "../platform/Formats.ts"

/** The key file under `DATA_DIR` is damaged. Stored secrets and cursors can't be read without the key. */
class SecretKeyUnusable extends Data.TaggedError("SecretKeyUnusable")<{ readonly file: string }> {
  override get message() {
    return `${this.file} does not hold 32 bytes in base64: restore it, or set SECRET_KEY to the key that it held`
  }
}

type Derived = Redacted.Redacted<Uint8Array>

/** The keys in `SECRET_KEY` and `SECRET_KEY_PREVIOUS`, from which another key is derived for each purpose. */
export class SecretKey extends Context.Service<
  SecretKey,
  {
    /**
     * Derives 32 bytes from the current key for a purpose (HKDF-SHA-256). The result depends only on the key and the purpose.
     */
    readonly derive: (purpose: string) => Derived
    /** Derives 32 bytes from each key: the current key first, then the keys of `SECRET_KEY_PREVIOUS`. */
    readonly deriveAll: (purpose: string) => Array.NonEmptyReadonlyArray<Derived>
  }
>()("developer-api-service/secrets/SecretBox/SecretKey") {
  /** Each key is 32 bytes in base64. */
  static readonly make = (current: Redacted.Redacted, previous: ReadonlyArray<Redacted.Redacted> = []) => {
    const keys = Array.dedupe<Array.NonEmptyReadonlyArray<Redacted.Redacted>>([current, ...previous])
    return SecretKey.of({
      derive: (purpose) => derived(current, purpose),
      deriveAll: (purpose) => Array.map(keys, (key) => derived(key, purpose))
    })
  }

  static readonly layer = Layer.effect(
    SecretKey,
    Effect.gen(function* () {
      const { dataDir, secretKey, secretKeyPrevious } = yield* Settings
      const current = yield* Option.match(secretKey, { onSome: Effect.succeed, onNone: () => keyUnder(dataDir) })
      return SecretKey.make(current, secretKeyPrevious)
    })
  )
}

const derived = (key: Redacted.Redacted, purpose: string): Derived =>
  Redacted.make(
    new Uint8Array(hkdfSync("sha256", Buffer.from(Redacted.value(key), "base64"), "developer-api", purpose, 32))
  )

/**
 * Reads the key file, and creates it on first use. Concurrent processes get the same key, because only one can link its draft to
 * the file's name.
 */
const keyUnder = Effect.fnUntraced(function* (directory: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const file = path.join(directory, "secret-key")
  if (!(yield* fs.exists(file))) {
    yield* fs.makeDirectory(directory, { recursive: true })
    const draft = path.join(directory, `secret-key.${randomBytes(6).toString("hex")}`)
    yield* writeFlushed(fs, draft, randomBytes(32).toString("base64"))
    yield* fs.link(draft, file).pipe(Effect.catchReason("PlatformError", "AlreadyExists", () => Effect.void))
    yield* fs.remove(draft)
    yield* Effect.scoped(Effect.flatMap(fs.open(directory), (opened) => opened.sync))
  }
  const text = (yield* fs.readFileString(file)).trim()
  if (!isSecretKey(text)) return yield* new SecretKeyUnusable({ file })
  return Redacted.make(text)
})

/**
 * Writes a new file and flushes it, because values that the key has sealed can't be opened without the file. The caller flushes
 * the directory.
 */
const writeFlushed = Effect.fnUntraced(function* (fs: FileSystem.FileSystem, path: string, text: string) {
  const file = yield* fs.open(path, { flag: "wx", mode: 0o600 })
  yield* file.writeAll(Buffer.from(text))
  yield* file.sync
}, Effect.scoped)

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
>()("developer-api-service/secrets/SecretBox") {
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
