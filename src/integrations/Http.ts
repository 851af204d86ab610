/** HTTP handlers of installations, webhooks and the import preview. */
import { Effect, Redacted } from "effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { Api } from "../api/Api.ts"
import { Principal } from "../api/Authentication.ts"
import { commandWith, pageHandler, recordHandler } from "../platform/requests/Handlers.ts"
import { sentAsIs } from "../platform/requests/SentAsIs.ts"
import { receiptWith, unversionedReceiptAnswer } from "../platform/requests/Responses.ts"
import { Preview } from "./imports/Preview.ts"
import { makeListInstallations } from "./Installations.ts"
import { makeWebhookReads } from "./WebhookReads.ts"
import { makeWebhooks, type WebhookOutcome } from "./Webhooks.ts"

export const installations = HttpApiBuilder.group(Api, "installations", (handlers) =>
  Effect.map(makeListInstallations, (list) =>
    handlers.handleAll(sentAsIs({ listInstallations: pageHandler((projectId, { query }) => list(projectId, query)) }))
  )
)

/** The answer to a repeated command has no signing secret. */
const secretAnswer = (outcome: WebhookOutcome) =>
  receiptWith(outcome, outcome.returned === null ? {} : { signingSecret: Redacted.value(outcome.returned) })

export const webhooks = HttpApiBuilder.group(
  Api,
  "webhooks",
  Effect.fnUntraced(function* (handlers) {
    const webhooks = yield* makeWebhooks
    const reads = yield* makeWebhookReads
    return handlers.handleAll(
      sentAsIs({
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
    )
  })
)

export const preview = HttpApiBuilder.group(Api, "preview", (handlers) =>
  Effect.map(Preview, ({ preview }) =>
    handlers.handleAll(
      sentAsIs({
        previewImport: ({ params }) => Principal.use(({ projectId }) => preview(projectId, params.installationId))
      })
    )
  )
)
