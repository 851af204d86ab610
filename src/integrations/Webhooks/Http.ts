/** Webhooks over HTTP. */
import { Effect, Redacted } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../../api/Api.ts"
import { Principal } from "../../api/Authentication.ts"
import { command } from "../../platform/idempotency/Idempotency.ts"
import { receiptAnswer } from "../../platform/Responses.ts"
import { type WebhookOutcome, Webhooks } from "../Webhooks.ts"

/** The receipt, with the secret in the one answer that shows it. */
const secretAnswer = (outcome: WebhookOutcome) =>
  receiptAnswer(200, outcome, outcome.returned === null ? {} : { signingSecret: Redacted.value(outcome.returned) })

export const layer = HttpApiBuilder.group(
  Api,
  "webhooks",
  Effect.fn(function* (handlers) {
    const webhooks = yield* Webhooks
    return handlers.handleAll({
      configureWebhook: Effect.fnUntraced(function* (request) {
        const { projectId } = yield* Principal
        const { params, payload } = request
        return secretAnswer(
          yield* webhooks.configure(command(projectId, "configureWebhook", request), params.installationId, payload)
        )
      }),
      rotateWebhookSecret: Effect.fnUntraced(function* (request) {
        const { projectId } = yield* Principal
        const { params, payload } = request
        return secretAnswer(
          yield* webhooks.rotate(command(projectId, "rotateWebhookSecret", request), params.installationId, payload)
        )
      }),
      retryDelivery: Effect.fnUntraced(function* (request) {
        const { projectId } = yield* Principal
        const { deliveryId, installationId } = request.params
        return receiptAnswer(
          200,
          yield* webhooks.retry(command(projectId, "retryDelivery", request), installationId, deliveryId)
        )
      })
    })
  })
)
