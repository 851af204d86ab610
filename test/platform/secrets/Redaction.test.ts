import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import { redactSecrets } from "../../../src/platform/secrets/Redaction.ts"

const hex = (character: string) => character.charCodeAt(0).toString(16)

/** Ways to write a character in a URL: plain, percent-encoded in either case, and encoded again as a whole or in parts. */
const spellings: ReadonlyArray<(character: string) => string> = [
  (character) => character,
  (character) => `%${hex(character)}`,
  (character) => `%${hex(character).toUpperCase()}`,
  (character) => `%25${hex(character)}`,
  (character) => `%2525${hex(character).toUpperCase()}`,
  (character) => `%${[...hex(character)].map((digit) => `%${hex(digit)}`).join("")}`,
  (character) => [...`%${hex(character)}`].map((part) => `%${hex(part)}`).join("")
]

const characters = (text: string, length: number) =>
  fc.string({ unit: fc.constantFrom(...text), minLength: length, maxLength: length })
const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

/** Secrets of each kind with the text that remains of them. */
const secrets = fc.oneof(
  fc
    .tuple(characters(base62, 12), characters(base62, 38))
    .map(([keyId, rest]) => [`dk_${keyId}_${rest}`, "dk_[redacted]"] as const),
  characters(`${base62}+/`, 32).map((text) => [`whsec_${text}`, "whsec_[redacted]"] as const),
  characters(`${base62}-_`, 43).map((text) => [`code=${text}`, "code=[redacted]"] as const)
)

/** A secret as it is spelled. */
const spelled = secrets.chain(([secret, redacted]) =>
  fc
    .tuple(...[...secret].map((character) => fc.constantFrom(...spellings).map((spell) => spell(character))))
    .map((parts) => ({ secret, redacted, text: parts.join("") }))
)

describe("redaction", () => {
  it("removes a secret in every spelling, and nothing else", () => {
    fc.assert(
      fc.property(spelled, spelled, (one, other) => {
        const line = (first: string, second: string) => `GET /a%20%zz%FF/${first}?x=%41&y=${second} 404 é%`
        assert.strictEqual(redactSecrets(line(one.text, other.text)), line(one.redacted, other.redacted))
        assert.strictEqual(redactSecrets(`at ${one.text}`), `at ${one.redacted}`)
      }),
      { numRuns: 300 }
    )
  })

  it("leaves other text as it is", () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(..."%25dk4_ébB0/") }), (text) => {
        fc.pre(!redactSecrets(text).includes("[redacted]"))
        assert.strictEqual(redactSecrets(text), text)
      })
    )
    for (const text of ["dk_short", "%64k_short", "dks_aaaaaaaaaaaa", "%", "%2", "%25", "%2564", "100%"]) {
      assert.strictEqual(redactSecrets(text), text)
    }
  })

  it("removes a secret in the location of a fault", () => {
    assert.strictEqual(redactSecrets('"query/whsec_MfKQ9r8G~1KYqrTwjUPD8ILPZIo2LaLaSw"'), '"query/whsec_[redacted]"')
  })
})
