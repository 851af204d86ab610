/** Messaging over HTTP. */
import { Effect } from "effect"
import { HttpEffect, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../api/Api.ts"
import { Principal } from "../api/Authentication.ts"
import type { MessageAttempt, MessageReceipt, Source } from "../api/messaging/Messaging.ts"
import { ProjectMismatch, ProviderConflict, ProviderOutcomeUnknown } from "../api/Problems.ts"
import { command } from "../platform/idempotency/Idempotency.ts"
import { jsonAnswer, pageAnswer } from "../platform/Responses.ts"
import { type Sent, Sending } from "./Sending.ts"
import { Sources } from "./Sources.ts"

/** The caller's project, which is the one that they expect. */
const projectOf = Effect.fnUntraced(function* (expected: string | undefined) {
  const { projectId } = yield* Principal
  if (expected !== undefined && expected !== projectId) {
    return yield* new ProjectMismatch({ detail: "The token is of another project than expectedProjectId says." })
  }
  return projectId
})

export const layer = HttpApiBuilder.group(
  Api,
  "messaging",
  Effect.fn(function* (handlers) {
    const sources = yield* Sources
    const sending = yield* Sending
    return handlers.handleAll({
      listSources: Effect.fnUntraced(function* ({ query: { cursor, expectedProjectId, limit }, request }) {
        const projectId = yield* projectOf(expectedProjectId)
        return yield* pageAnswer<Source>(request, yield* sources.list(projectId, { limit, cursor }))
      }),
      getConversationSource: Effect.fnUntraced(function* ({ params, query }) {
        const projectId = yield* projectOf(query.expectedProjectId)
        return yield* sources.ofConversation(projectId, params.conversationId)
      }),
      sendMessage: Effect.fnUntraced(function* (request) {
        const { params, payload } = request
        const projectId = yield* projectOf(payload.expectedProjectId)
        const sent = yield* sending.send(
          command(projectId, "sendMessage", request),
          params.conversationId,
          payload.text
        )
        return yield* answerOf(sent)
      })
    })
  })
)

/** What a message's state is answered with (contract §8). */
const answerOf = Effect.fnUntraced(function* ({ message, replayed }: Sent) {
  const { deliveryStatus, messageId, waitMillis } = message
  const wait = waitMillis ?? undefined
  // A message whose process died stays pending until somebody finds it; from the end of its lease nobody knows.
  const isUnknown = deliveryStatus === "unknown" || (deliveryStatus === "pending" && wait !== undefined && wait <= 0)
  yield* HttpEffect.appendPreResponseHandler((_, response) =>
    Effect.succeed(
      HttpServerResponse.setHeaders(response, {
        ...(replayed ? { "idempotent-replayed": "true" } : {}),
        ...(isUnknown ? { "retry-after": String(retryAfter(wait)) } : {})
      })
    )
  )
  if (isUnknown) {
    return yield* new ProviderOutcomeUnknown({
      detail: "Ask again with the same idempotency-key: it sends nothing, and tells what has become of the message.",
      messageId
    })
  }
  if (deliveryStatus === "failed") {
    return yield* new ProviderConflict({
      detail: `The message was not sent${reasonOf(message.attempts)}. A new message takes a new idempotency-key.`,
      messageId
    })
  }
  return jsonAnswer(200, receiptOf(message))
})

/** Whole seconds until the next attempt, or, where only an operator can tell, a while. */
const retryAfter = (wait: number | undefined) => (wait === undefined ? 60 : Math.max(1, Math.ceil(wait / 1000)))

const reasonOf = (attempts: ReadonlyArray<MessageAttempt>) => {
  const last = attempts.at(-1)
  return last?.errorCode == null ? ": its channel is revoked" : ` (${last.errorCode})`
}

/** The members in the order of the contract: jsonb has one of its own. */
const receiptOf = (message: Sent["message"]): MessageReceipt => ({
  messageId: message.messageId,
  conversationId: message.conversationId,
  sourceId: message.sourceId,
  deliveryStatus: message.deliveryStatus,
  createdAt: message.createdAt,
  updatedAt: message.updatedAt,
  attempts: message.attempts.map(
    ({ errorCode, finishedAt, nextAttemptAt, number, providerMessageId, startedAt, status }) => ({
      number,
      status,
      startedAt,
      finishedAt,
      providerMessageId,
      errorCode,
      nextAttemptAt
    })
  )
})
