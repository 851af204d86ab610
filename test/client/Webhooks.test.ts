/** Verification of deliveries that `standardwebhooks` has signed, and of faulty ones. */
import { assert, describe, it } from "../support/Vitest.ts"
import { Effect, Redacted, Schema } from "effect"
import { TestClock } from "effect/testing"
import { createHmac } from "node:crypto"
import { Webhook } from "standardwebhooks"
import { dealExample } from "../../src/api/crm/Deals.ts"
import { withAbsentAsNull } from "../../src/client/OlderEvents.ts"
import {
  verifyWebhook,
  verifyWebhookPromise,
  type WebhookDelivery,
  type WebhookEvent,
  WebhookInvalid
} from "../../src/client/Webhooks.ts"

const secretOf = (fill: number) => `whsec_${Buffer.alloc(32, fill).toString("base64")}`
const [fresh, old, other] = [secretOf(0xfb), secretOf(2), secretOf(3)]

const deal = { ...dealExample, title: "Espresso machines, für den Hafen ☕", clientId: null, version: 2 }

const task = {
  id: "task_1",
  title: "Call back",
  dealId: "deal_1",
  clientId: null,
  assigneeId: null,
  dueAt: null,
  completedAt: null,
  createdAt: "2026-11-20T10:00:00.000Z"
}

const eventOf = (type: string, data: object) =>
  JSON.stringify({
    id: "evt_1",
    type,
    timestamp: "2026-11-20T10:00:00.000Z",
    projectId: "demo",
    installationId: "ins_shop",
    data
  })

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

describe("a webhook event", () => {
  it.effect("is decoded by its type", function* () {
    yield* TestClock.setTime(now)
    const event = yield* verifyWebhook(delivery())
    assert.strictEqual(event.type, "crm.deal.stage_changed.v1")
    if (event.type !== "crm.deal.stage_changed.v1") return
    assert.strictEqual(event.data.previousStageId, "stage_new")
    assert.strictEqual(event.data.deal.title, deal.title)
  })

  const others: ReadonlyArray<readonly [type: WebhookEvent["type"], data: object]> = [
    ["crm.deal.created.v1", { deal }],
    ["crm.deal.updated.v1", { deal, previous: { title: "Before", lostReason: null } }],
    ["crm.task.created.v1", { task }],
    ["crm.task.completed.v1", { task: { ...task, completedAt: "2026-11-20T10:00:00.000Z" } }]
  ]
  for (const [type, data] of others) {
    it.effect(`of ${type} has the data of its type`, function* () {
      const text = eventOf(type, data)
      const result = yield* verified({ body: text, headers: headersOf(text) })
      assert.deepStrictEqual(result._tag === "Success" && JSON.parse(JSON.stringify(result.success)), JSON.parse(text))
    })
  }
})

describe("an event that is older than this client", () => {
  /** Removes the members that are null, and the earlier values, as if they had been added since. */
  const older = (data: object): object =>
    JSON.parse(
      JSON.stringify(data, (member, value: unknown) => (member === "previous" ? undefined : (value ?? undefined)))
    )

  for (const [type, data] of [
    ["crm.deal.created.v1", { deal }],
    ["crm.deal.updated.v1", { deal, previous: {} }],
    ["crm.deal.stage_changed.v1", { deal, previousStageId: "stage_new", previous: {} }],
    ["crm.task.created.v1", { task }],
    ["crm.task.completed.v1", { task }]
  ] as const) {
    it.effect(`has null for each absent member that may be null, and no earlier values: ${type}`, function* () {
      const text = eventOf(type, older(data))
      const result = yield* verified({ body: text, headers: headersOf(text) })
      const event: unknown = result._tag === "Success" && JSON.parse(JSON.stringify(result.success))
      assert.deepStrictEqual(event, JSON.parse(eventOf(type, data)))
    })
  }

  it("has null at any depth, and none for an optional member or one that may not be null", () => {
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
  takes("among signatures of other versions and invalid ones", () => ({
    headers: {
      ...headersOf(body),
      "webhook-signature": `v1a,xyz v1 v1, nonsense ${headersOf(body)["webhook-signature"]} v2,abc`
    }
  }))
  takes("5 minutes late", () => ({ headers: headersOf(body, [fresh], seconds - 300) }))
  takes("5 minutes early", () => ({ headers: headersOf(body, [fresh], seconds + 300) }))
  takes("as late as the tolerance is wide", () => ({
    headers: headersOf(body, [fresh], seconds - 3600),
    tolerance: "1 hour"
  }))
  takes("with members that this client does not know", () => {
    const text = JSON.stringify({ ...JSON.parse(body), more: 1 })
    return { body: text, headers: headersOf(text) }
  })
})

describe("a delivery is refused", () => {
  for (const name of ["webhook-id", "webhook-timestamp", "webhook-signature"]) {
    refuses(`without ${name}`, "header_missing", () => ({ headers: { ...headersOf(body), [name]: undefined } }))
    refuses(`with an empty ${name}`, "header_missing", () => ({ headers: { ...headersOf(body), [name]: "" } }))
  }
  refuses("without any header", "header_missing", () => ({ headers: new Headers() }))
  for (const timestamp of ["soon", "1e9", `${seconds}.5`, `-${seconds}`, `0x${seconds.toString(16)}`, "9".repeat(16)]) {
    refuses(`with the time ${timestamp}`, "timestamp_invalid", () => ({
      headers: { ...headersOf(body), "webhook-timestamp": timestamp }
    }))
  }
  refuses("more than 5 minutes late", "too_old", () => ({ headers: headersOf(body, [fresh], seconds - 301) }))
  refuses("more than 5 minutes early", "too_new", () => ({ headers: headersOf(body, [fresh], seconds + 301) }))
  refuses("by another secret", "signature_invalid", () => ({ secrets: [old, other] }))
  refuses("without a secret", "signature_invalid", () => ({ secrets: [] }))
  refuses("with another body", "signature_invalid", () => ({ body: body.replace("1250000", "1250001") }))
  refuses("with the same JSON in other bytes", "signature_invalid", () => ({
    body: JSON.stringify(JSON.parse(body), null, 1)
  }))
  refuses("under another id", "signature_invalid", () => ({ headers: { ...headersOf(body), "webhook-id": "dlv_2" } }))
  refuses("at another time", "signature_invalid", () => ({
    headers: { ...headersOf(body), "webhook-timestamp": String(seconds - 1) }
  }))
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
    "separated by a comma": `v1,AAAA,${mac}`
  }
  for (const [what, signature] of Object.entries(damaged)) {
    refuses(`with a signature ${what}`, "signature_invalid", () => ({
      headers: { ...headersOf(body), "webhook-signature": signature }
    }))
  }
  for (const secret of ["", "whsec_", "whsec_*", "whsec_A"]) {
    refuses(`where the receiver's secret is "${secret}"`, "secret_invalid", () => ({ secrets: [fresh, secret] }))
  }
  const unreadable: Readonly<Record<string, string>> = {
    "that is no JSON": "{",
    "without a type": eventOf("crm.deal.created.v1", { deal }).replace('"type":"crm.deal.created.v1",', ""),
    "with a type that is no text": eventOf("crm.deal.created.v1", { deal }).replace('"crm.deal.created.v1"', "1"),
    "with the data of another type": eventOf("crm.task.created.v1", { deal }),
    "with a deal of another form": eventOf("crm.deal.created.v1", { deal: { ...deal, version: "2" } }),
    "without a member that may not be null": eventOf("crm.deal.created.v1", { deal: { ...deal, stageId: undefined } }),
    "without an id": eventOf("crm.deal.created.v1", { deal }).replace('"id":"evt_1",', "")
  }
  for (const [what, text] of Object.entries(unreadable)) {
    refuses(`with a body ${what}, though it is signed`, "body_invalid", () => ({
      body: text,
      headers: headersOf(text)
    }))
  }
  refuses("of a type that is newer than the client, though it is signed", "type_unknown", () => {
    const newer = eventOf("crm.deal.exploded.v1", { deal })
    return { body: newer, headers: headersOf(newer) }
  })
  for (const at of [0, 20, 41]) {
    refuses(`with a signature that differs in its character ${at} alone`, "signature_invalid", () => {
      const other = mac[at] === "A" ? "B" : "A"
      return {
        headers: { ...headersOf(body), "webhook-signature": `v1,${mac.slice(0, at)}${other}${mac.slice(at + 1)}` }
      }
    })
  }
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

describe("the webhook verification for Promises", () => {
  const at = () => Math.floor(Date.now() / 1000)

  it("resolves to the event of a delivery", async () => {
    const event = await verifyWebhookPromise(delivery({ headers: headersOf(body, [fresh], at()) }))
    assert.strictEqual(event.installationId, "ins_shop")
  })

  it("rejects with the reason for a refused delivery", async () => {
    const failure: unknown = await verifyWebhookPromise(
      delivery({ secrets: other, headers: headersOf(body, [fresh], at()) })
    ).catch((error: unknown) => error)
    assert.instanceOf(failure, WebhookInvalid)
    assert.instanceOf(failure, Error)
    assert.strictEqual(failure instanceof WebhookInvalid && failure.reason, "signature_invalid")
    assert.strictEqual(failure instanceof Error && failure.message, "No signature fits a secret")
  })
})
