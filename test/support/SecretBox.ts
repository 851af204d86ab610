/** What seals secrets where no service runs. */
import { Layer, Redacted } from "effect"
import { SecretBox } from "../../src/platform/SecretBox.ts"
import { SecretKey } from "../../src/platform/SecretKey.ts"

/** The box of a service with this `SECRET_KEY`. */
export const secretBox = (key: string) =>
  SecretBox.layer.pipe(Layer.provide(Layer.succeed(SecretKey, SecretKey.make(Redacted.make(key)))))
