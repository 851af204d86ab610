/**
 * The connector of providers with this service's own protocol: signed like webhooks, idempotent by message id (contract
 * §8).
 */
import { Clock, type Duration, Effect, Option, Schema } from "effect"
import { currentTraceparent } from "../../platform/outbound/ClientSpan.ts"
import { signedHeaders } from "../../platform/StandardWebhooks.ts"
import { isUnsafe } from "../../platform/UnsafeText.ts"
import type { Connector, Outcome } from "../Connectors.ts"
import { call, type Reply } from "./Call.ts"
import type { Configs } from "./Config.ts"
import { jsonBody } from "./JsonBody.ts"
import { byFailure, byStatus, meaningOf } from "./Outcomes.ts"

export const http = (timeout: Duration.Duration): Connector<Configs["http"]> => ({
  idempotent: true,
  send: ({ signingSecret, url }, { conversationId, messageId, recipient, text }) =>
    call(timeout, {
      messageId,
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

/** The id is stored and shown, so it must not contain unsafe characters. */
const read = jsonBody(
  Schema.Struct({ providerMessageId: Schema.String.check(Schema.makeFilter((id: string) => !isUnsafe(id))) })
)

const outcomeOf = ({ body, retryAfter, status }: Reply): Outcome =>
  meaningOf(status) === "accepted"
    ? Option.match(read(body), {
        onNone: () => byFailure("unreadable_answer"),
        onSome: ({ providerMessageId }) => ({ _tag: "accepted", providerMessageId })
      })
    : byStatus("http", status, retryAfter)
