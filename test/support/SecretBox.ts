/** A secret box for tests without a service. */
import { Layer, Redacted } from "effect"
import { SecretBox, SecretKey } from "../../src/secrets/SecretBox.ts"

/** The secret box of a service with this `SECRET_KEY`, and with these keys in `SECRET_KEY_PREVIOUS`. */
export const secretBox = (key: string, ...previous: ReadonlyArray<string>) =>
  SecretBox.layer.pipe(
    Layer.provide(
      Layer.succeed(
        SecretKey,
        SecretKey.make(
          Redacted.make(key),
          previous.map((key) => Redacted.make(key))
        )
      )
    )
  )
