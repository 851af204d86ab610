import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Layer, Redacted } from "effect"
import fc from "fast-check"
import { randomBytes } from "node:crypto"
import { SecretBox } from "../../src/platform/SecretBox.ts"
import { SecretKey } from "../../src/platform/SecretKey.ts"

const box = (key: string) =>
  Effect.runSync(
    Effect.provide(
      Effect.service(SecretBox),
      SecretBox.layer.pipe(Layer.provide(Layer.succeed(SecretKey, SecretKey.make(Redacted.make(key)))))
    )
  )
const { open, seal } = box(randomBytes(32).toString("base64"))
const sealed = (owner: ReadonlyArray<string>, secret: string) => Effect.runSync(seal(owner, Redacted.make(secret)))

const owner = fc.array(fc.string(), { minLength: 1, maxLength: 3 })

describe("SecretBox", () => {
  it("opens what it sealed for the same owner, and seals the same secret differently each time", () => {
    fc.assert(
      fc.property(owner, fc.string(), (owner, secret) => {
        const first = sealed(owner, secret)
        assert.strictEqual(Redacted.value(Effect.runSync(open(owner, first))), secret)
        assert.notDeepEqual(first, sealed(owner, secret))
      })
    )
  })

  it("does not open another owner's secret, an altered one, or one of another key", () => {
    fc.assert(
      fc.property(owner, owner, fc.string(), fc.nat(), (owner, other, secret, at) => {
        fc.pre(JSON.stringify(owner) !== JSON.stringify(other))
        const bytes = sealed(owner, secret)
        const altered = Uint8Array.from(bytes)
        const i = at % bytes.length
        altered[i] = (bytes[i] ?? 0) ^ 1
        assert.isTrue(Exit.isFailure(Effect.runSyncExit(open(other, bytes))))
        assert.isTrue(Exit.isFailure(Effect.runSyncExit(open(owner, altered))))
        assert.isTrue(Exit.isFailure(Effect.runSyncExit(open(owner, bytes.subarray(0, i)))))
        assert.isTrue(Exit.isFailure(Effect.runSyncExit(box(randomBytes(32).toString("base64")).open(owner, bytes))))
      }),
      { numRuns: 30 }
    )
  })
})
