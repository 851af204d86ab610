/**
 * What a receiver of webhooks needs, in a file that imports nothing, so that a receiver stays small: the signature of deliveries
 * (Standard Webhooks 1.0, symmetric, `v1`), and what keeps the newest version of each record, in whatever order events arrive.
 */

type HeaderValue = string | ReadonlyArray<string> | undefined

/** A delivery as it arrived, and what is needed to verify it. */
export interface SignedDelivery {
  /** The raw body. The signature covers its bytes: JSON that was parsed and serialized again has other bytes. */
  readonly body: string | Uint8Array
  /** The headers: `Headers`, or a plain object with names in any case. */
  readonly headers: { readonly get: (name: string) => string | null } | Readonly<Record<string, HeaderValue>>
  /** The signing secret, `whsec_…`, or a list of secrets. One of them has to match. */
  readonly secrets: string | ReadonlyArray<string>
  /** Maximum difference between the delivery's time and now in seconds, in either direction. Default: 300. */
  readonly tolerance?: number | undefined
}

/** The reason why a delivery is not authentic or cannot be decoded. Only `secret_invalid` is an error of the receiver. */
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
export class WebhookInvalid extends Error {
  readonly _tag = "WebhookInvalid"
  readonly reason: WebhookInvalidReason
  constructor(reason: WebhookInvalidReason, message: string, cause?: unknown) {
    super(message, cause === undefined ? {} : { cause })
    this.name = "WebhookInvalid"
    this.reason = reason
  }
}

/**
 * Verifies the signatures of a delivery. Returns its JSON object, which has a `type`. `now` is the time of day in milliseconds. An event
 * that is sent after its client was erased has only ids: it is returned as the event of the erasure.
 */
export const verified = async (
  { body, headers, secrets, tolerance = 300 }: SignedDelivery,
  now: number
): Promise<{ readonly type: string } | WebhookInvalid> => {
  // Programs without types pass other values, such as a body that a framework has parsed.
  const bytes = typeof body === "string" ? encoder.encode(body) : body
  if (!(bytes instanceof Uint8Array)) {
    return new WebhookInvalid(
      "body_invalid",
      "body has to be the raw text or bytes of the request: they are signed, and a parsed body has lost them"
    )
  }
  const keys = [secrets].flat().map(keyOf)
  if (keys.length === 0 || keys.some((key) => key === undefined)) {
    return new WebhookInvalid("secret_invalid", "A secret is missing, or not whsec_ and base64: pass the signingSecret")
  }
  const [id, timestamp, signature] = names.map((name) => headerOf(headers, name))
  for (const [at, value] of [id, timestamp, signature].entries()) {
    if (value === "") return new WebhookInvalid("header_missing", `There is no ${names[at]}`)
  }
  if (!/^[0-9]{1,15}$/.test(timestamp ?? ""))
    return new WebhookInvalid("timestamp_invalid", "webhook-timestamp is not in seconds")
  const age = Math.floor(now / 1000) - Number(timestamp)
  if (age > tolerance) return new WebhookInvalid("too_old", `The delivery was signed ${age} s ago`)
  if (-age > tolerance) return new WebhookInvalid("too_new", `The delivery was signed ${-age} s from now`)

  const head = encoder.encode(`${id}.${timestamp}.`)
  const signed = new Uint8Array(head.length + bytes.length)
  signed.set(head)
  signed.set(bytes, head.length)
  const expected = await Promise.all(keys.map((key) => sign(key ?? new Uint8Array(), signed)))
  const given = (signature ?? "").split(" ").flatMap((text) => bytesOf(signaturePattern.exec(text)?.[1] ?? "") ?? [])
  if (!given.some((mac) => expected.some((own) => isEqual(own, mac)))) {
    return new WebhookInvalid("signature_invalid", "No signature fits a secret")
  }
  try {
    const event: unknown = JSON.parse(decoder.decode(bytes))
    if (isOfSomeType(event)) return isErased(event) ? { ...event, type: "crm.client.erased.v1" } : event
    return new WebhookInvalid("body_invalid", "The body has no type")
  } catch (cause) {
    return new WebhookInvalid("body_invalid", "The body is no JSON in UTF-8", cause)
  }
}

const encoder = new TextEncoder()
const decoder = new TextDecoder("utf-8", { fatal: true })

const names = ["webhook-id", "webhook-timestamp", "webhook-signature"] as const

const isGettable = (headers: SignedDelivery["headers"]): headers is { get: (name: string) => string | null } =>
  typeof headers["get"] === "function"

/** Returns the value of a header, several values separated by spaces; empty if there is none. */
const headerOf = (headers: SignedDelivery["headers"], name: string): string => {
  const value = isGettable(headers)
    ? headers.get(name)
    : Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1]
  return [value ?? []].flat().join(" ")
}

/** A signature of version 1: 32 bytes in base64. Other versions and malformed signatures are ignored. */
const signaturePattern = /^v1,([A-Za-z0-9+/]{43}=)$/

/** Decodes base64; undefined if the text is none, or empty. */
const bytesOf = (base64: string): Uint8Array<ArrayBuffer> | undefined => {
  try {
    const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0))
    return bytes.length === 0 ? undefined : bytes
  } catch {
    return undefined
  }
}

/** Decodes a secret, with or without prefix, in either base64 alphabet, padded or not. */
const keyOf = (secret: unknown) =>
  typeof secret === "string"
    ? bytesOf(
        secret
          .replace(/^whsec_/, "")
          .replaceAll("-", "+")
          .replaceAll("_", "/")
      )
    : undefined

const hmac = { name: "HMAC", hash: "SHA-256" }

const sign = async (key: Uint8Array<ArrayBuffer>, signed: Uint8Array<ArrayBuffer>) => {
  const imported = await crypto.subtle.importKey("raw", key, hmac, false, ["sign"])
  return new Uint8Array(await crypto.subtle.sign("HMAC", imported, signed))
}

/** Takes the same time wherever two codes of one length differ. */
const isEqual = (own: Uint8Array, given: Uint8Array) =>
  own.length === given.length && own.reduce((different, byte, at) => different | (byte ^ (given[at] ?? 0)), 0) === 0

const isOfSomeType = (event: unknown): event is { readonly type: string } =>
  isObject(event) && "type" in event && typeof event.type === "string"

const isErased = (event: { readonly type: string; readonly data?: unknown }) =>
  /^crm\.client\.(created|updated)\.v1$/.test(event.type) &&
  isObject(event.data) &&
  "client" in event.data &&
  isObject(event.data.client) &&
  !("displayName" in event.data.client)

/** The versions that are stored, by `client/<id>` and `deal/<id>`: a `Map`, or something that keeps them for longer. */
export interface Versions {
  readonly get: (record: string) => number | undefined | PromiseLike<number | undefined>
  readonly set: (record: string, version: number) => unknown
}

/**
 * Makes a function that runs `store` for an event, unless a newer version of its record (`data.client` or `data.deal`) is stored, and
 * returns whether it did. A version counts as stored only after `store`: if `store` fails, it runs again for the repeated delivery. Events
 * of one record run one after the other. Two events may have the same version: both are stored. No event is newer than the erasure of its
 * client.
 */
export const keepNewest = (versions: Versions = new Map<string, number>()) => {
  const running = new Map<string, Promise<boolean>>()
  return async ({ data }: { readonly data: object }, store: () => unknown): Promise<boolean> => {
    const [record, version] = versionOf(data)
    const run = async () => {
      if (((await versions.get(record)) ?? 0) > version) return false
      await store()
      await versions.set(record, version)
      return true
    }
    if (record === "") {
      await store()
      return true
    }
    const turn = (running.get(record) ?? Promise.resolve()).then(run, run)
    running.set(record, turn)
    try {
      return await turn
    } finally {
      if (running.get(record) === turn) running.delete(record)
    }
  }
}

/** Returns the record of an event and its version, the highest for one that is gone; an empty name for an event without a record. */
const versionOf = (data: object): readonly [record: string, version: number] => {
  for (const kind of ["client", "deal"]) {
    const record: unknown = Reflect.get(data, kind)
    if (!isObject(record) || !("id" in record)) continue
    const version = "version" in record && typeof record.version === "number" ? record.version : Number.MAX_SAFE_INTEGER
    return [`${kind}/${String(record.id)}`, version]
  }
  return ["", 0]
}

const isObject = (value: unknown): value is object => typeof value === "object" && value !== null
