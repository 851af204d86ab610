/** The key of this installation (`SECRET_KEY`), from which every other key derives. */
import { Context, Data, Effect, FileSystem, Layer, Option, Path, Redacted } from "effect"
import { hkdfSync, randomBytes } from "node:crypto"
import { isSecretKey, Settings } from "./Settings.ts"

/** What is kept under `DATA_DIR` is not the key that was made. Without it stored secrets and cursors can't be read. */
export class SecretKeyUnusable extends Data.TaggedError("SecretKeyUnusable")<{ readonly file: string }> {
  override get message() {
    return `${this.file} does not hold 32 bytes in base64: restore it, or remove it to have a new key made`
  }
}

export class SecretKey extends Context.Service<
  SecretKey,
  {
    /** 32 bytes for one purpose (HKDF-SHA-256), the same on every replica and after every restart. */
    readonly derive: (purpose: string) => Redacted.Redacted<Uint8Array>
  }
>()("developer-api/platform/SecretKey") {
  /** A service that derives from 32 bytes in base64. */
  static readonly make = (secret: Redacted.Redacted) =>
    SecretKey.of({
      derive: (purpose) =>
        Redacted.make(
          new Uint8Array(
            hkdfSync("sha256", Buffer.from(Redacted.value(secret), "base64"), "developer-api", purpose, 32)
          )
        )
    })

  static readonly layer = Layer.effect(
    SecretKey,
    Effect.gen(function* () {
      const settings = yield* Settings
      return SecretKey.make(
        yield* Option.match(settings.secretKey, { onSome: Effect.succeed, onNone: () => keptUnder(settings.dataDir) })
      )
    })
  )
}

/** Makes the key once, whole or not at all. Of two processes that make it at once, the first to link it wins. */
const keptUnder = Effect.fnUntraced(function* (directory: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const file = path.join(directory, "secret-key")
  if (!(yield* fs.exists(file))) {
    yield* fs.makeDirectory(directory, { recursive: true })
    const draft = path.join(directory, `secret-key.${randomBytes(6).toString("hex")}`)
    yield* fs.writeFileString(draft, randomBytes(32).toString("base64"), { mode: 0o600 })
    yield* fs.link(draft, file).pipe(Effect.catchReason("PlatformError", "AlreadyExists", () => Effect.void))
    yield* fs.remove(draft)
  }
  const text = (yield* fs.readFileString(file)).trim()
  if (!isSecretKey(text)) return yield* new SecretKeyUnusable({ file })
  return Redacted.make(text)
})
