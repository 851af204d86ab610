/** HTTP handlers of installations, webhooks and the import preview. */
import { Effect, Redacted } from "effect"
import { Principal } from "../api/Authentication.ts"
import { commandWith, handlersOf, pageHandler, recordHandler } from "../platform/requests/Handlers.ts"
import { receiptWith, unversionedReceiptAnswer } from "../platform/requests/Responses.ts"
import { Preview } from "./imports/Preview.ts"
import { makeListInstallations } from "./Installations.ts"
import { makeWebhookReads } from "./WebhookReads.ts"
import { makeWebhooks, type WebhookOutcome } from "./Webhooks.ts"

export const installations = handlersOf("installations", (define) =>
  Effect.map(makeListInstallations, (list) =>
    define({ listInstallations: pageHandler((projectId, { query }) => list(projectId, query)) })
  )
)

/** The answer to a repeated command has no signing secret. */
const secretAnswer = (outcome: WebhookOutcome) =>
  receiptWith(outcome, outcome.returned === null ? {} : { signingSecret: Redacted.value(outcome.returned) })

export const webhooks = handlersOf(
  "webhooks",
  Effect.fn(function* (define) {
    const webhooks = yield* makeWebhooks
    const reads = yield* makeWebhookReads
    return define({
      getWebhook: recordHandler((projectId, { params }) => reads.get(projectId, params.installationId)),
      listDeliveries: pageHandler((projectId, { params, query }) =>
        reads.listDeliveries(projectId, params.installationId, query)
      ),
      getDelivery: ({ params }) =>
        Principal.use(({ projectId }) => reads.getDelivery(projectId, params.installationId, params.deliveryId)),
      configureWebhook: commandWith(
        (command, { params, payload }) => webhooks.configure(command, params.installationId, payload),
        secretAnswer
      ),
      rotateWebhookSecret: commandWith(
        (command, { params, payload }) => webhooks.rotate(command, params.installationId, payload),
        secretAnswer
      ),
      retryDelivery: commandWith(
        (command, { params }) => webhooks.retry(command, params.installationId, params.deliveryId),
        unversionedReceiptAnswer
      )
    })
  })
)

export const preview = handlersOf("preview", (define) =>
  Effect.map(Preview, ({ preview }) =>
    define({
      previewImport: ({ params }) => Principal.use(({ projectId }) => preview(projectId, params.installationId))
    })
  )
)
