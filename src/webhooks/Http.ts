/** HTTP handlers of installations and webhooks. */
import { Effect, Redacted } from "effect"
import { Principal } from "../api/Access.ts"
import {
  commandWith,
  groupOf,
  pageHandler,
  receiptWith,
  recordHandler,
  unversionedReceiptAnswer
} from "../http/path/Handlers.ts"
import { makeListInstallations } from "./WebhookList.ts"
import { makeWebhookReads, makeWebhooks, type WebhookOutcome } from "./Webhooks.ts"

export const installations = groupOf("installations", makeListInstallations, (list, handlers) =>
  handlers({ listInstallations: pageHandler((projectId, { query }) => list(projectId, query)) })
)

/** The answer to a repeated command has no signing secret. */
const secretAnswer = (outcome: WebhookOutcome) =>
  receiptWith(outcome, outcome.returned === null ? {} : { signingSecret: Redacted.value(outcome.returned) })

export const webhooks = groupOf(
  "webhooks",
  Effect.all({ webhooks: makeWebhooks, reads: makeWebhookReads }),
  ({ webhooks, reads }, handlers) =>
    handlers({
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
      ),
      testWebhook: ({ params }) => Principal.use(({ projectId }) => webhooks.test(projectId, params.installationId)),
      replayDeliveries: commandWith(
        (command, { params, payload }) => webhooks.replay(command, params.installationId, payload),
        unversionedReceiptAnswer
      ),
      getReplay: ({ params }) =>
        Principal.use(({ projectId }) => reads.getReplay(projectId, params.installationId, params.replayId))
    })
)
