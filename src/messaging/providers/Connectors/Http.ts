/**
 * The connector of providers that use the HTTP protocol of contract §8. Requests are signed like webhooks, and sends are
 * idempotent by message id.
 */
import { Clock, Effect, Option, Schema } from "effect"
import { currentTraceparent } from "../../../outbound/Exchange.ts"
import { signedHeaders } from "../../../secrets/StandardWebhooks.ts"
import { isUnsafe } from "../../../platform/Text.ts"
import {
  byFailure,
  byStatus,
  call,
  connector,
  HttpUrl,
  jsonBody,
  meaningOf,
  type CallOutcome,
  type Reply,
  secret
} from "../Connector.ts"

/** A secret in the standard or the URL-safe base64 alphabet. The libraries of Standard Webhooks accept both. */
const signingSecret = secret(/^(?:whsec_)?[A-Za-z0-9+/_-]+={0,2}$/u, "a signing secret: whsec_ and base64")

export const http = connector({
  config: Schema.Struct({ url: HttpUrl, signingSecret }),
  defaults: {},
  idempotent: true,
  send: ({ signingSecret, url }, { conversationId, messageId, recipient, text }, timeout) =>
    call(timeout, {
      messageId,
      secret: signingSecret,
      url: new URL(url),
      request: Effect.gen(function* () {
        const body = Buffer.from(JSON.stringify({ messageId, conversationId, recipient, text }))
        const traceparent = yield* currentTraceparent
        const headers = {
          "idempotency-key": messageId,
          ...signedHeaders([signingSecret], messageId, yield* Clock.currentTimeMillis, body)
        }
        return { body, headers: Option.isSome(traceparent) ? { ...headers, traceparent: traceparent.value } : headers }
      }),
      outcomeOf
    })
})

/** Reads the message id that the provider returned. The id is stored and shown, so unsafe characters are refused. */
const read = jsonBody(
  Schema.Struct({ providerMessageId: Schema.String.check(Schema.makeFilter((id: string) => !isUnsafe(id))) })
)

const outcomeOf = ({ body, retryAfter, status }: Reply): CallOutcome =>
  meaningOf(status) === "accepted"
    ? Option.match(read(body), {
        onNone: () => byFailure("unreadable_answer"),
        onSome: ({ providerMessageId }) => ({ _tag: "accepted", providerMessageId })
      })
    : byStatus("http", status, retryAfter)
