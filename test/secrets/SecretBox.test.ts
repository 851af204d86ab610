import fc from "fast-check"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Redacted } from "effect"
import { randomBytes } from "node:crypto"
import { SecretBox } from "../../src/secrets/SecretBox.ts"
import { secretBox } from "../support/SecretBox.ts"
import { redactSecrets } from "../../src/platform/Text.ts"
import { Webhook } from "standardwebhooks"
import { newSecret, signatures, signedHeaders } from "../../src/secrets/StandardWebhooks.ts"

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

const now = () => Math.floor(Date.now() / 1000)
const secret = () => Effect.runSync(newSecret)

const verify = (secret: Redacted.Redacted, id: string, timestamp: number, body: string | Buffer, signature: string) =>
  new Webhook(Redacted.value(secret)).verify(
    body,
    { "webhook-id": id, "webhook-timestamp": `${timestamp}`, "webhook-signature": signature },
    { jsonParse: false }
  )

it("webhook signatures verify with the Standard Webhooks library for any body", () => {
  fc.assert(
    fc.property(fc.stringMatching(/^[A-Za-z0-9_]{1,40}$/), fc.string({ unit: "binary" }), (id, text) => {
      const key = secret()
      const body = text.toWellFormed()
      const [timestamp, bytes] = [now(), Buffer.from(body)]
      const signature = signatures([key], id, timestamp, bytes)
      assert.strictEqual(signatures([key], id, timestamp, body), signature)
      assert.strictEqual(signature, new Webhook(Redacted.value(key)).sign(id, new Date(timestamp * 1000), body))
      verify(key, id, timestamp, body, signature)
    }),
    { numRuns: 50 }
  )
})

describe("signed webhook headers", () => {
  it("are the three of the standard, with a time in whole seconds", () => {
    const key = secret()
    const milliseconds = now() * 1000 + 999
    const headers = signedHeaders([key], "msg_1", milliseconds, "{}")
    assert.deepStrictEqual(headers, {
      "webhook-id": "msg_1",
      "webhook-timestamp": `${Math.floor(milliseconds / 1000)}`,
      "webhook-signature": signatures([key], "msg_1", Math.floor(milliseconds / 1000), "{}")
    })
    new Webhook(Redacted.value(key)).verify("{}", headers)
  })

  it("take a secret in either alphabet of base64, with its prefix or without", () => {
    const key = Buffer.from(Array.from({ length: 32 }, (_, i) => 255 - i))
    const texts = [key.toString("base64"), key.toString("base64url")].flatMap((text) => [text, `whsec_${text}`])
    const signed = texts.map((text) => signatures([Redacted.make(text)], "msg_1", 1, "{}"))
    assert.strictEqual(new Set(signed).size, 1)
    assert.strictEqual(signed[0], new Webhook(key.toString("base64")).sign("msg_1", new Date(1000), "{}"))
  })
})

it("a new signing secret is 32 random bytes and redacted", () => {
  const [first, second] = [secret(), secret()]
  assert.match(Redacted.value(first), /^whsec_[A-Za-z0-9+/]{43}=$/)
  assert.notStrictEqual(Redacted.value(first), Redacted.value(second))
  assert.notInclude(JSON.stringify({ first }) + String(first), Redacted.value(first))
})
