/** The keys in `SECRET_KEY` and `SECRET_KEY_PREVIOUS`, from which another key is derived for each purpose. */
import { Array, Context, Data, Effect, FileSystem, Layer, Option, Path, Redacted } from "effect"
import { hkdfSync, randomBytes } from "node:crypto"
import { Settings } from "../platform/Settings.ts"
import { isSecretKey } from "../platform/Settings/Formats.ts"

/** The key file under `DATA_DIR` is damaged. Stored secrets and cursors can't be read without the key. */
class SecretKeyUnusable extends Data.TaggedError("SecretKeyUnusable")<{ readonly file: string }> {
  override get message() {
    return `${this.file} does not hold 32 bytes in base64: restore it, or set SECRET_KEY to the key that it held`
  }
}

type Derived = Redacted.Redacted<Uint8Array>

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
>()("developer-api/secrets/SecretKey") {
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
