/** HTTP handlers of webhooks. */
import { Effect, Redacted } from "effect"
import { Principal } from "../../api/Authentication.ts"
import { handlersOf } from "../../platform/Handlers.ts"
import { command } from "../../platform/idempotency/Idempotency.ts"
import { receiptWith, unversionedReceiptAnswer } from "../../platform/Responses.ts"
import { type WebhookOutcome, Webhooks } from "../Webhooks.ts"

/** Answers the receipt, with the signing secret unless it is a replay. */
const secretAnswer = (outcome: WebhookOutcome) =>
  receiptWith(outcome, outcome.returned === null ? {} : { signingSecret: Redacted.value(outcome.returned) })

export const handlers = handlersOf("webhooks", (define) =>
  Effect.map(Webhooks, (webhooks) =>
    define({
      configureWebhook: (request) =>
        Principal.use(({ projectId }) =>
          Effect.map(
            webhooks.configure(command(projectId, request), request.params.installationId, request.payload),
            secretAnswer
          )
        ),
      rotateWebhookSecret: (request) =>
        Principal.use(({ projectId }) =>
          Effect.map(
            webhooks.rotate(command(projectId, request), request.params.installationId, request.payload),
            secretAnswer
          )
        ),
      retryDelivery: (request) =>
        Principal.use(({ projectId }) =>
          Effect.map(
            webhooks.retry(command(projectId, request), request.params.installationId, request.params.deliveryId),
            unversionedReceiptAnswer
          )
        )
    })
  )
)
