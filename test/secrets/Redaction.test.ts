import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import { redactSecrets } from "../../src/platform/Text.ts"

const characters = (text: string, length: number) =>
  fc.string({ unit: fc.constantFrom(...text), minLength: length, maxLength: length })
const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

/** Secrets of each kind with the text that remains of them. */
const secrets = fc.oneof(
  fc
    .tuple(characters(base62, 12), characters(base62, 38))
    .map(([keyId, rest]) => [`dk_${keyId}_${rest}`, "dk_[redacted]"] as const),
  characters(`${base62}+/`, 32).map((text) => [`whsec_${text}`, "whsec_[redacted]"] as const),
  characters(`${base62}+/`, 32).map((text) => [`whsec_${encodeURIComponent(text)}`, "whsec_[redacted]"] as const),
  characters(`${base62}-_`, 43).map((text) => [`code=${text}`, "code=[redacted]"] as const),
  characters(`${base62}-_`, 35).map((text) => [`123456:${text}`, "123456:[redacted]"] as const)
)

describe("redaction", () => {
  it("removes every secret, also a percent-encoded one, and nothing else", () => {
    fc.assert(
      fc.property(secrets, secrets, ([one, left], [other, right]) => {
        const line = (first: string, second: string) => `GET /a%20%zz%FF/${first}?x=%41&y=${second} 404 é%`
        assert.strictEqual(redactSecrets(line(one, other)), line(left, right))
      })
    )
    for (const text of ["dk_short", "%64k_short", "dks_aaaaaaaaaaaa", "%", "100%"]) {
      assert.strictEqual(redactSecrets(text), text)
    }
  })

  it("removes a secret in the location of a fault", () => {
    assert.strictEqual(redactSecrets('"query/whsec_MfKQ9r8G~1KYqrTwjUPD8ILPZIo2LaLaSw"'), '"query/whsec_[redacted]"')
  })
})
