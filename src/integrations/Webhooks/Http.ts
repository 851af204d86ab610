/** HTTP handlers of webhooks. */
import { Effect, Redacted } from "effect"
import { Principal } from "../../api/Authentication.ts"
import { command } from "../../platform/mutations/Idempotency.ts"
import { handlersOf, pageHandler, recordHandler } from "../../platform/requests/Handlers.ts"
import { receiptWith, unversionedReceiptAnswer } from "../../platform/requests/Responses.ts"
import { WebhookReads } from "../WebhookReads.ts"
import { type WebhookOutcome, Webhooks } from "../Webhooks.ts"

/** Returns the receipt of a command, with the signing secret unless the outcome is a replay. */
const secretAnswer = (outcome: WebhookOutcome) =>
  receiptWith(outcome, outcome.returned === null ? {} : { signingSecret: Redacted.value(outcome.returned) })

export const handlers = handlersOf(
  "webhooks",
  Effect.fn(function* (define) {
    const webhooks = yield* Webhooks
    const reads = yield* WebhookReads
    return define({
      getWebhook: recordHandler((projectId, { params }) => reads.get(projectId, params.installationId)),
      listDeliveries: pageHandler((projectId, { params, query: { cursor, eventType, limit, status } }) =>
        reads.listDeliveries(projectId, params.installationId, { status, eventType, limit, cursor })
      ),
      getDelivery: ({ params }) =>
        Principal.use(({ projectId }) => reads.getDelivery(projectId, params.installationId, params.deliveryId)),
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
  })
)
