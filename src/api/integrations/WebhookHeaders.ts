/** Headers that a caller adds to the deliveries of a webhook (contract §10). */
import { Predicate, Schema } from "effect"

/** The headers of a delivery that the service sets. */
export const deliveryHeaders = [
  "webhook-id",
  "webhook-timestamp",
  "webhook-signature",
  "content-type",
  "user-agent",
  "traceparent"
] as const

/** Names that a caller cannot set: the headers of the service, of the connection, and of the body. */
const reserved: ReadonlySet<string> = new Set([
  ...deliveryHeaders,
  "host",
  "accept-encoding",
  "connection",
  "expect",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "content-encoding",
  "content-language",
  "content-length",
  "content-location",
  "content-range"
])

const headersMax = 10

/** A token of RFC 9110, section 5.6.2. */
const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$/

export const WebhookHeaders = Schema.Record(
  Schema.String,
  Schema.String.check(
    Schema.isPattern(/^[\x20-\x7e]{1,1024}$/, { expected: "a string of 1 to 1024 visible ASCII characters or spaces" })
  )
).check(Schema.isMaxProperties(headersMax, { expected: `an object of at most ${headersMax} headers` }))
export type WebhookHeaders = typeof WebhookHeaders.Type

/** Lists the faults of the names in `headers`, each at its name. Names are compared without case. */
export const faultsOfNames = (headers: unknown) => {
  const seen = new Set<string>()
  return Object.keys(Predicate.isObject(headers) ? headers : {}).flatMap((name) => {
    const key = name.toLowerCase()
    const issue = !token.test(name)
      ? "must have a name that is a token of 1 to 64 characters (RFC 9110)"
      : reserved.has(key)
        ? "must have another name: this service or the connection sets this header"
        : seen.has(key)
          ? "must not repeat a name: names are compared without case"
          : undefined
    seen.add(key)
    return issue === undefined ? [] : [{ path: ["headers", name], issue }]
  })
}
