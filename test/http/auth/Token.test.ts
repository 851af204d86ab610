/** Tokens: their form, their checksum and their hash. */
import { assert, describe, it } from "../../support/Vitest.ts"
import { Effect, Option, Redacted } from "effect"
import * as fc from "fast-check"
import { crc32 } from "node:zlib"
import { checksum, generate, hash, present } from "../../../src/http/auth/Credentials.ts"

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
const base62 = (length: number) =>
  fc.string({ unit: fc.constantFrom(...alphabet), minLength: length, maxLength: length })

/** Any token that could be issued. */
const token = fc.tuple(base62(12), base62(32)).map(([keyId, secret]) => {
  const body = `dk_${keyId}_${secret}`
  return { keyId, text: body + checksum(body) }
})

const read = (text: string) => present(text)?.keyId

describe("a generated token", () => {
  it.effect("is well-formed, unique and contains its key id", function* () {
    const issued = yield* Effect.replicateEffect(generate(Option.none()), 1000)
    for (const { keyId, token } of issued) {
      assert.match(Redacted.value(token), /^dk_[0-9A-Za-z]{12}_[0-9A-Za-z]{38}$/)
      assert.strictEqual(read(Redacted.value(token)), keyId)
    }
    assert.strictEqual(new Set(issued.map(({ keyId }) => keyId)).size, 1000)
    // One of the 62 characters is missing among 44,000 random ones with a probability of e^-700.
    const characters = new Set(issued.map(({ token }) => Redacted.value(token).slice(3)).join(""))
    assert.strictEqual(characters.size, alphabet.length + "_".length)
  })
})

describe("a presented token", () => {
  it("is refused with one character changed, left out, added or moved", () => {
    const place = fc.nat(54)
    const character = fc.oneof(fc.constantFrom(...alphabet), fc.string({ unit: "binary", minLength: 1, maxLength: 1 }))
    fc.assert(
      fc.property(token, place, character, ({ text }, at, other) => {
        const before = text.slice(0, at)
        const after = text.slice(at + 1)
        const moved = before + (text[at + 1] ?? "") + (text[at] ?? "") + text.slice(at + 2)
        return [before + other + after, before + after, before + other + text.slice(at), moved].every(
          (changed) => changed === text || read(changed) === undefined
        )
      }),
      { numRuns: 500 }
    )
  })

  it("is refused when it is other text or has whitespace around it", () => {
    fc.assert(fc.property(fc.string({ unit: "binary" }), (text) => read(text) === undefined))
    fc.assert(
      fc.property(token, ({ text }) => [`${text}\n`, ` ${text}`, `${text} `].every((t) => read(t) === undefined))
    )
  })
})

describe("the checksum of a token", () => {
  it("is the CRC-32 in base62, in six digits", () => {
    const number = (text: string) => [...text].reduce((sum, digit) => sum * 62n + BigInt(alphabet.indexOf(digit)), 0n)
    fc.assert(
      fc.property(fc.string({ unit: "binary-ascii" }), (text) => {
        assert.match(checksum(text), /^[0-9A-Za-z]{6}$/)
        assert.strictEqual(number(checksum(text)), BigInt(crc32(text)))
      })
    )
  })
})

describe("the hash of a token", () => {
  it("is the SHA-256 of the whole token", () => {
    const hex = (text: string) => Buffer.from(hash(Redacted.make(text))).toString("hex")
    // FIPS 180-2, appendix B.1
    assert.strictEqual(hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
  })
})
