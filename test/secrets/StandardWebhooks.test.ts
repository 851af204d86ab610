import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import fc from "fast-check"
import { Webhook } from "standardwebhooks"
import { newSecret, signatures, signedHeaders } from "../../src/secrets/StandardWebhooks.ts"

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
