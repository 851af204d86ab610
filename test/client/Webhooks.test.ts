/** Verification of deliveries that `standardwebhooks` has signed, and of faulty ones. */
import { assert, describe, it } from "../support/Vitest.ts"
import { Effect, Redacted, Schema } from "effect"
import { TestClock } from "effect/testing"
import { createHmac } from "node:crypto"
import { Webhook } from "standardwebhooks"
import { dealExample } from "../../src/api/crm/Deals.ts"
import { events, eventTypes } from "../../src/api/integrations/Events.ts"
import {
  verifyWebhook,
  verifyWebhookPromise,
  type WebhookDelivery,
  WebhookInvalid,
  withAbsentAsNull
} from "../../src/client/Webhooks.ts"
import { verifyWebhook as verifyPlain } from "../../src/client/VerifyOnly.ts"

const secretOf = (fill: number) => `whsec_${Buffer.alloc(32, fill).toString("base64")}`
const [fresh, old, other] = [secretOf(0xfb), secretOf(2), secretOf(3)]

const eventOf = (type: string, data: object) =>
  JSON.stringify({
    id: "evt_1",
    type,
    timestamp: "2026-11-20T10:00:00.000Z",
    projectId: "demo",
    installationId: "ins_shop",
    data
  })

const deal = { ...dealExample, title: "Espresso machines, für den Hafen ☕", clientId: null, version: 2 }
const created = eventOf("crm.deal.created.v1", { deal })
const body = eventOf("crm.deal.stage_changed.v1", { deal, previousStageId: "stage_new" })
const now = Date.parse("2026-11-20T10:00:00.500Z")
const seconds = Math.floor(now / 1000)

/** Returns the headers of a delivery, with a signature by each of the secrets. */
const headersOf = (text: string, secrets: ReadonlyArray<string> = [fresh], at = seconds) => ({
  "webhook-id": "dlv_1",
  "webhook-timestamp": String(at),
  "webhook-signature": secrets.map((secret) => new Webhook(secret).sign("dlv_1", new Date(at * 1000), text)).join(" ")
})

const delivery = (change: Partial<WebhookDelivery> = {}): WebhookDelivery => ({
  body,
  headers: headersOf(body),
  secrets: fresh,
  ...change
})

/** The change to another body, with its signature. */
const signed = (text: string) => ({ body: text, headers: headersOf(text) })

/** The change to another signature, or to another of the other headers. */
const withHeader = (name: string, value: string | undefined) => ({ headers: { ...headersOf(body), [name]: value } })

const verified = (change?: Partial<WebhookDelivery>) =>
  Effect.andThen(TestClock.setTime(now), Effect.result(verifyWebhook(delivery(change))))

const takes = (what: string, change: () => Partial<WebhookDelivery>) =>
  it.effect(what, function* () {
    const result = yield* verified(change())
    assert.strictEqual(result._tag === "Success" ? result.success.id : result.failure.reason, "evt_1")
  })

const refuses = (what: string, reason: WebhookInvalid["reason"], change: () => Partial<WebhookDelivery>) =>
  it.effect(what, function* () {
    const result = yield* verified(change())
    assert.strictEqual(result._tag === "Failure" && result.failure.reason, reason)
  })

/** Returns an event as it is decoded, or undefined if its delivery is refused. */
const decoded = (text: string) =>
  Effect.map(verified(signed(text)), (result): unknown =>
    result._tag === "Success" ? JSON.parse(JSON.stringify(result.success)) : undefined
  )

describe("a webhook event", () => {
  for (const type of eventTypes) {
    const { example } = events[type]

    it.effect(`of ${type} has the data of its type`, function* () {
      const text = eventOf(type, example)
      assert.deepStrictEqual(yield* decoded(text), JSON.parse(text))
    })

    it.effect(
      `of ${type} that is older than this client has null for each absent member that may be null, and no earlier values`,
      function* () {
        // Without the members that are null and the earlier values, as if they had been added since.
        const older: object = JSON.parse(
          JSON.stringify(example, (member, value: unknown) =>
            member === "previous" ? undefined : (value ?? undefined)
          )
        )
        const complete = { ...example, ...("previous" in example && { previous: {} }) }
        assert.deepStrictEqual(yield* decoded(eventOf(type, older)), JSON.parse(eventOf(type, complete)))
      }
    )
  }

  it.effect("of a client who was erased since is read as the event of the erasure", function* () {
    const data = { client: { id: "cli_1", externalId: null } }
    const erased = JSON.parse(eventOf("crm.client.erased.v1", data))
    for (const type of ["crm.client.created.v1", "crm.client.updated.v1"]) {
      assert.deepStrictEqual(yield* decoded(eventOf(type, data)), erased)
    }
  })

  it("that is older has null at any depth, and none for an optional member or one that may not be null", () => {
    const Item = Schema.Struct({ id: Schema.String, note: Schema.NullOr(Schema.String) })
    const complete = withAbsentAsNull(
      Schema.Struct({
        items: Schema.Array(Item),
        owner: Schema.NullOr(Item),
        other: Schema.NullOr(Item),
        hint: Schema.optionalKey(Schema.NullOr(Schema.String))
      })
    )
    assert.deepStrictEqual(complete({ items: [{ id: "a" }, { note: "b" }], owner: {} }), {
      items: [{ id: "a", note: null }, { note: "b" }],
      owner: { note: null },
      other: null
    })
  })
})

describe("a delivery is taken", () => {
  takes("as bytes", () => ({ body: new TextEncoder().encode(body) }))
  takes("as a Buffer that is part of a larger one", () => ({
    body: Buffer.concat([Buffer.from("x"), Buffer.from(body)]).subarray(1)
  }))
  takes("with Headers", () => ({ headers: new Headers(headersOf(body)) }))
  takes("with header names in another case, and several values", () => {
    const { "webhook-id": id, "webhook-signature": signature, "webhook-timestamp": timestamp } = headersOf(body)
    return {
      headers: { "Webhook-Id": id, "WEBHOOK-TIMESTAMP": [timestamp], "webhook-Signature": ["v1,AAAA", signature] }
    }
  })
  takes("with a secret that is redacted", () => ({ secrets: Redacted.make(fresh) }))
  takes("with a secret without its prefix", () => ({ secrets: fresh.slice("whsec_".length) }))
  takes("with a secret in the other alphabet, unpadded", () => ({
    secrets: `whsec_${Buffer.alloc(32, 0xfb).toString("base64url")}`
  }))
  takes("with one of several secrets", () => ({ secrets: [other, old, fresh] }))
  takes("with the old secret, while both sign", () => ({ headers: headersOf(body, [fresh, old]), secrets: old }))
  takes("with the new secret, while both sign", () => ({ headers: headersOf(body, [old, fresh]), secrets: fresh }))
  takes("among signatures of other versions and invalid ones", () =>
    withHeader("webhook-signature", `v1a,xyz v1 v1, nonsense ${headersOf(body)["webhook-signature"]} v2,abc`)
  )
  takes("5 minutes late", () => ({ headers: headersOf(body, [fresh], seconds - 300) }))
  takes("5 minutes early", () => ({ headers: headersOf(body, [fresh], seconds + 300) }))
  takes("as late as the tolerance is wide", () => ({
    headers: headersOf(body, [fresh], seconds - 3600),
    tolerance: "1 hour"
  }))
  takes("with members that this client does not know", () => signed(JSON.stringify({ ...JSON.parse(body), more: 1 })))
})

describe("a delivery is refused", () => {
  for (const name of ["webhook-id", "webhook-timestamp", "webhook-signature"]) {
    refuses(`without ${name}`, "header_missing", () => withHeader(name, undefined))
    refuses(`with an empty ${name}`, "header_missing", () => withHeader(name, ""))
  }
  refuses("without any header", "header_missing", () => ({ headers: new Headers() }))
  for (const timestamp of ["soon", "1e9", `${seconds}.5`, `-${seconds}`, `0x${seconds.toString(16)}`, "9".repeat(16)]) {
    refuses(`with the time ${timestamp}`, "timestamp_invalid", () => withHeader("webhook-timestamp", timestamp))
  }
  refuses("more than 5 minutes late", "too_old", () => ({ headers: headersOf(body, [fresh], seconds - 301) }))
  refuses("more than 5 minutes early", "too_new", () => ({ headers: headersOf(body, [fresh], seconds + 301) }))
  refuses("by another secret", "signature_invalid", () => ({ secrets: [old, other] }))
  refuses("without a secret", "secret_invalid", () => ({ secrets: [] }))
  refuses("with another body", "signature_invalid", () => ({ body: body.replace("1250000", "1250001") }))
  refuses("with the same JSON in other bytes", "signature_invalid", () => ({
    body: JSON.stringify(JSON.parse(body), null, 1)
  }))
  refuses("under another id", "signature_invalid", () => withHeader("webhook-id", "dlv_2"))
  refuses("at another time", "signature_invalid", () => withHeader("webhook-timestamp", String(seconds - 1)))
  const [, mac = ""] = headersOf(body)["webhook-signature"].split(",")
  const damaged = {
    "without its version": mac,
    "of another version": `v2,${mac}`,
    "in upper case": `V1,${mac}`,
    "without its padding": `v1,${mac.slice(0, -1)}`,
    "with more padding": `v1,${mac}=`,
    truncated: `v1,${mac.slice(0, 40)}`,
    "that is too long": `v1,${mac.slice(0, -1)}AAA=`,
    "of the other alphabet": `v1,${"-".repeat(43)}=`,
    "of no base64": `v1,${"*".repeat(43)}=`,
    "that is empty": "v1,",
    "of zeros": `v1,${"A".repeat(43)}=`,
    "separated by a comma": `v1,AAAA,${mac}`,
    ...Object.fromEntries(
      [0, 20, 41].map((at) => [
        `that differs in its character ${at} alone`,
        `v1,${mac.slice(0, at)}${mac[at] === "A" ? "B" : "A"}${mac.slice(at + 1)}`
      ])
    )
  }
  for (const [what, signature] of Object.entries(damaged)) {
    refuses(`with a signature ${what}`, "signature_invalid", () => withHeader("webhook-signature", signature))
  }
  for (const secret of ["", "whsec_", "whsec_*", "whsec_A"]) {
    refuses(`where the receiver's secret is "${secret}"`, "secret_invalid", () => ({ secrets: [fresh, secret] }))
  }
  const unreadable: Readonly<Record<string, string>> = {
    "that is no JSON": "{",
    "without a type": created.replace('"type":"crm.deal.created.v1",', ""),
    "with a type that is no text": created.replace('"crm.deal.created.v1"', "1"),
    "with the data of another type": eventOf("crm.task.created.v1", { deal }),
    "with a deal of another form": eventOf("crm.deal.created.v1", { deal: { ...deal, version: "2" } }),
    "without a member that may not be null": eventOf("crm.deal.created.v1", { deal: { ...deal, stageId: undefined } }),
    "without an id": created.replace('"id":"evt_1",', "")
  }
  for (const [what, text] of Object.entries(unreadable)) {
    refuses(`with a body ${what}, though it is signed`, "body_invalid", () => signed(text))
  }
  refuses("of a type that is newer than the client, though it is signed", "type_unknown", () =>
    signed(eventOf("crm.deal.exploded.v1", { deal }))
  )
  refuses("with a body that is not UTF-8, though it is signed", "body_invalid", () => {
    // The title would still be valid if the byte were decoded as a replacement character.
    const bytes = Buffer.from(body)
    bytes[bytes.indexOf("Espresso")] = 0xff
    const key = Buffer.from(fresh.slice("whsec_".length), "base64")
    const signed = Buffer.concat([Buffer.from(`dlv_1.${seconds}.`), bytes])
    const mac = createHmac("sha256", key).update(signed).digest("base64")
    return { body: bytes, headers: { ...headersOf(body), "webhook-signature": `v1,${mac}` } }
  })
})

describe("the verification for Promises, with effect and without", () => {
  const at = () => Math.floor(Date.now() / 1000)
  const verifiedBy = (verify: typeof verifyPlain | typeof verifyWebhookPromise, change: object = {}) =>
    verify({ body, headers: headersOf(body, [fresh], at()), secrets: fresh, ...change }).catch(
      (failure: unknown) => failure
    )
  const plain = (change?: object) => verifiedBy(verifyPlain, change)

  it("resolves to the event as it was sent", async () => {
    assert.deepStrictEqual(await plain(), JSON.parse(body))
    const exploded = eventOf("crm.deal.exploded.v1", {})
    const newer = await plain({ body: exploded, headers: headersOf(exploded, [fresh], at()) })
    assert.deepStrictEqual(newer, JSON.parse(exploded))
    assert.propertyVal(await verifiedBy(verifyWebhookPromise), "installationId", "ins_shop")
  })

  it("reads an event of a client who was erased since as the event of the erasure", async () => {
    const data = { client: { id: "cli_1", externalId: null } }
    for (const type of ["crm.client.created.v1", "crm.client.updated.v1"]) {
      const text = eventOf(type, data)
      const event = await plain({ body: text, headers: headersOf(text, [fresh], at()) })
      assert.deepStrictEqual(event, JSON.parse(eventOf("crm.client.erased.v1", data)))
    }
    const whole = eventOf("crm.client.created.v1", events["crm.client.created.v1"].example)
    assert.deepStrictEqual(await plain({ body: whole, headers: headersOf(whole, [fresh], at()) }), JSON.parse(whole))
  })

  const misuses = {
    "with a parsed body": [{ body: JSON.parse(body) }, "body_invalid", /^body has to be the raw text or bytes/],
    "without a body": [{ body: undefined }, "body_invalid", /^body has to be the raw text or bytes/],
    "without a secret": [{ secrets: undefined }, "secret_invalid", /^A secret is missing/],
    "with another secret": [{ secrets: other }, "signature_invalid", /^No signature fits/],
    "too late": [{ tolerance: -1 }, "too_old", /^The delivery was signed/]
  } as const
  for (const [what, [change, reason, message]] of Object.entries(misuses)) {
    it(`rejects ${what} with a reason and a sentence`, async () => {
      for (const verify of [verifyPlain, verifyWebhookPromise]) {
        const failure = await verifiedBy(verify, change)
        assert.isTrue(failure instanceof WebhookInvalid)
        assert.strictEqual(failure instanceof WebhookInvalid && failure.reason, reason)
        assert.match(String(failure instanceof Error && failure.message), message)
      }
    })
  }
})
