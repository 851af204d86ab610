/** Verification of webhook deliveries by the receiver: Standard Webhooks 1.0, symmetric (`v1`). */
import { Clock, Data, Duration, Effect, Redacted, Result, Schema } from "effect"
import { Mac, WebCrypto } from "effect/crypto"
import { Base64 } from "effect/encoding"
import { eventBody, type EventType, eventTypes } from "../api/integrations/Events.ts"
import { withAbsentAsNull } from "./OlderEvents.ts"

/** An event. `type` decides the type of `data`. `id` is the same in each delivery of the event: handle each `id` once. */
export type WebhookEvent = { [Type in EventType]: ReturnType<typeof eventBody<Type>>["Type"] }[EventType]

type HeaderValue = string | ReadonlyArray<string> | undefined

/** A delivery as it arrived, and what is needed to verify it. */
export interface WebhookDelivery {
  /** The raw body. The signature covers its bytes: JSON that was parsed and serialized again has other bytes. */
  readonly body: string | Uint8Array
  /** The headers: `Headers`, or a plain object with names in any case. */
  readonly headers: { readonly get: (name: string) => string | null } | Readonly<Record<string, HeaderValue>>
  /** The signing secret, `whsec_…`, or a list of secrets. One of them has to match. */
  readonly secrets: string | Redacted.Redacted | ReadonlyArray<string | Redacted.Redacted>
  /** Maximum difference between the delivery's time and now, in either direction. Default: 5 minutes. */
  readonly tolerance?: Duration.Input | undefined
}

/**
 * The reason why a delivery is not authentic or cannot be decoded. Only `secret_invalid` is an error of the receiver.
 */
export type WebhookInvalidReason =
  | "header_missing"
  | "timestamp_invalid"
  | "too_old"
  | "too_new"
  | "secret_invalid"
  | "signature_invalid"
  | "type_unknown"
  | "body_invalid"

/**
 * A delivery that could not be verified or decoded. Answer 400, so that the service retries the delivery. For the reason
 * `type_unknown`, answer 204: the delivery is authentic but newer than this client, so a retry would not help.
 */
export class WebhookInvalid extends Data.TaggedError("WebhookInvalid")<{
  readonly reason: WebhookInvalidReason
  readonly message: string
  readonly cause?: unknown
}> {}

const invalid = (reason: WebhookInvalidReason, message: string, cause?: unknown) =>
  Effect.fail(new WebhookInvalid({ reason, message, cause }))

/**
 * Verifies a delivery and decodes its event. One of the delivery's signatures has to fit one of the secrets: pass the old and
 * the new secret during a rotation. The comparison takes constant time. Fails with `WebhookInvalid`.
 */
export const verifyWebhook = Effect.fnUntraced(function* ({
  body,
  headers,
  secrets,
  tolerance = "5 minutes"
}: WebhookDelivery): Effect.fn.Return<WebhookEvent, WebhookInvalid> {
  const id = yield* headerOf(headers, "webhook-id")
  const timestamp = yield* headerOf(headers, "webhook-timestamp")
  const signature = yield* headerOf(headers, "webhook-signature")
  yield* checkTime(timestamp, Duration.toSeconds(tolerance))

  const bytes = typeof body === "string" ? encoder.encode(body) : body
  const signed = concat(encoder.encode(`${id}.${timestamp}.`), bytes)
  const expected = yield* Effect.forEach([secrets].flat(), (secret) => sign(secret, signed))
  const given = signature.split(" ").flatMap((text) => signaturePattern.exec(text)?.[1] ?? [])
  const fits = given.some((text) => {
    const bytes = Result.getOrElse(Base64.decode(text), () => new Uint8Array())
    return expected.some((mac) => Mac.timingSafeEqual(mac, bytes))
  })
  if (!fits) return yield* invalid("signature_invalid", "No signature fits a secret")
  return yield* read(bytes)
})

/** Like `verifyWebhook`, as a Promise that rejects with `WebhookInvalid`. */
export const verifyWebhookPromise = (delivery: WebhookDelivery): Promise<WebhookEvent> =>
  Effect.runPromise(verifyWebhook(delivery))

const encoder = new TextEncoder()

const concat = (first: Uint8Array, second: Uint8Array) => {
  const all = new Uint8Array(first.length + second.length)
  all.set(first)
  all.set(second, first.length)
  return all
}

const isGettable = (headers: WebhookDelivery["headers"]): headers is { get: (name: string) => string | null } =>
  typeof headers["get"] === "function"

/** An empty header counts as missing. */
const headerOf = (headers: WebhookDelivery["headers"], name: string): Effect.Effect<string, WebhookInvalid> => {
  const value = isGettable(headers)
    ? headers.get(name)
    : Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1]
  const text = [value ?? []].flat().join(" ")
  return text === "" ? invalid("header_missing", `There is no ${name}`) : Effect.succeed(text)
}

const checkTime = Effect.fnUntraced(function* (timestamp: string, tolerance: number) {
  if (!/^[0-9]{1,15}$/.test(timestamp))
    return yield* invalid("timestamp_invalid", "webhook-timestamp is not in seconds")
  const age = Math.floor((yield* Clock.currentTimeMillis) / 1000) - Number(timestamp)
  if (age > tolerance) return yield* invalid("too_old", `The delivery was signed ${age} s ago`)
  if (-age > tolerance) return yield* invalid("too_new", `The delivery was signed ${-age} s from now`)
})

/** A signature of version 1: 32 bytes in base64. Other versions and malformed signatures are ignored. */
const signaturePattern = /^v1,([A-Za-z0-9+/]{43}=)$/

/** Decodes a secret, with or without prefix, in either base64 alphabet, padded or not. */
const keyOf = (secret: string | Redacted.Redacted) => {
  const text = Redacted.isRedacted(secret) ? Redacted.value(secret) : secret
  const base64 = text
    .replace(/^whsec_/, "")
    .replaceAll("-", "+")
    .replaceAll("_", "/")
    .replace(/=+$/, "")
  return Base64.decode(base64.padEnd(Math.ceil(base64.length / 4) * 4, "="))
}

const hmac = { name: "HMAC", hash: "SHA-256" }

const sign = Effect.fnUntraced(function* (secret: string | Redacted.Redacted, signed: Uint8Array<ArrayBuffer>) {
  const key = new Uint8Array(Result.getOrElse(keyOf(secret), () => []))
  if (key.length === 0) return yield* invalid("secret_invalid", "A secret is not whsec_ and base64")
  const { subtle } = yield* WebCrypto.WebCrypto
  return yield* Effect.promise(async () => {
    const imported = await subtle.importKey("raw", key, hmac, false, ["sign"])
    return new Uint8Array(await subtle.sign("HMAC", imported, signed))
  })
})

/** The decoder also accepts events of an older service, which lack members that were added since. */
const decoderOf = (type: EventType) => {
  const schema = eventBody(type)
  const decode = Schema.decodeUnknownEffect(schema)
  const complete = withAbsentAsNull(schema)
  return (body: unknown): Effect.Effect<unknown, Schema.SchemaError> => decode(complete(body))
}
const decoders = new Map<string, ReturnType<typeof decoderOf>>(eventTypes.map((type) => [type, decoderOf(type)]))
const isOfSomeType = Schema.is(Schema.Struct({ type: Schema.String }))

const read = Effect.fnUntraced(function* (bytes: Uint8Array) {
  const unreadable = (cause: unknown) => invalid("body_invalid", "The body is no event that this client knows", cause)
  const body = yield* Effect.catch(
    Effect.try((): unknown => JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes))),
    unreadable
  )
  if (!isOfSomeType(body)) return yield* unreadable("The body has no type")
  const decode = decoders.get(body.type)
  if (decode === undefined) {
    return yield* invalid("type_unknown", `This client does not know events of type ${JSON.stringify(body.type)}`)
  }
  const event = yield* Effect.catch(decode(body), unreadable)
  // The type of `decoders` does not relate `type` and `data`, but each event is decoded by the schema of its own type.
  return event as WebhookEvent
})
