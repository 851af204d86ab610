import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Redacted } from "effect"
import fc from "fast-check"
import { randomBytes } from "node:crypto"
import { SecretBox } from "../../src/secrets/SecretBox.ts"
import { secretBox } from "../support/SecretBox.ts"

const newKey = () => randomBytes(32).toString("base64")
const box = (key: string, ...previous: ReadonlyArray<string>) =>
  Effect.runSync(Effect.provide(Effect.service(SecretBox), secretBox(key, ...previous)))
const { open, seal } = box(newKey())
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

  it("seals under the current key, and opens what previous keys have sealed", () => {
    fc.assert(
      fc.property(owner, fc.string(), (owner, secret) => {
        const [current, older, oldest] = [newKey(), newKey(), newKey()]
        const own = box(current, older, oldest)
        const examine = (value: Uint8Array) => Effect.runSync(own.examine(owner, value))
        for (const [key, name] of [current, older, oldest].entries()) {
          const value = Effect.runSync(box(name).seal(owner, Redacted.make(secret)))
          assert.strictEqual(Redacted.value(Effect.runSync(own.open(owner, value))), secret)
          assert.strictEqual(examine(value).key, key)
        }
        const fresh = Effect.runSync(own.seal(owner, Redacted.make(secret)))
        assert.strictEqual(examine(fresh).key, 0)
        assert.isTrue(Exit.isFailure(Effect.runSyncExit(box(older, oldest).open(owner, fresh))))
      }),
      { numRuns: 20 }
    )
  })
})
