/** Reads webhooks and deliveries for callers of the API (contract §10). */
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { details } from "../api/Details.ts"
import type { DeliveryId, InstallationId, ProjectId } from "../api/schema/Ids.ts"
import type { Delivery, DeliveryDetails } from "../api/integrations/Deliveries.ts"
import type { Webhook } from "../api/integrations/WebhookHealth.ts"
import {
  type CursorInvalid,
  DeliveryNotFound,
  type InstallationNotFound,
  type ServiceUnavailable,
  WebhookNotFound
} from "../api/Problems.ts"
import { statement } from "../platform/database/Database.ts"
import { lookupBy } from "../platform/database/Lookups.ts"
import { type Page, Pages } from "../platform/requests/Pages.ts"
import * as Details from "./deliveries/DeliveryDetails.ts"
import * as DeliveryList from "./deliveries/DeliveryList.ts"
import * as Installations from "./Installations.ts"
import * as WebhookList from "./endpoints/WebhookList.ts"

export class WebhookReads extends Context.Service<
  WebhookReads,
  {
    readonly get: (
      projectId: ProjectId,
      id: InstallationId
    ) => Effect.Effect<Webhook, InstallationNotFound | WebhookNotFound | ServiceUnavailable>

    /** Lists the deliveries of an installation, newest first, up to `limit` on a page. */
    readonly listDeliveries: (
      projectId: ProjectId,
      id: InstallationId,
      query: DeliveryList.PageFilter & { readonly limit: number; readonly cursor: string | undefined }
    ) => Effect.Effect<Page<Delivery>, CursorInvalid | InstallationNotFound | ServiceUnavailable>

    readonly getDelivery: (
      projectId: ProjectId,
      id: InstallationId,
      deliveryId: DeliveryId
    ) => Effect.Effect<DeliveryDetails, DeliveryNotFound | InstallationNotFound | ServiceUnavailable>
  }
>()("developer-api/integrations/WebhookReads") {
  static readonly layer = Layer.effect(
    WebhookReads,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const pages = yield* Pages
      const findWebhook = lookupBy(sql, WebhookList.details(sql))
      const findDelivery = lookupBy(sql, Details.details(sql))

      /**
       * Fails with `missing` if the project has the installation, otherwise with `installation_not_found`. It is called
       * only when the record was not found.
       */
      const failure = <E>(projectId: ProjectId, id: InstallationId, missing: () => E) =>
        Effect.flatMap(
          statement(Installations.exists(sql, projectId, id)),
          (exists): Effect.Effect<never, E | InstallationNotFound> =>
            Effect.fail(exists ? missing() : Installations.installation_not_found())
        )

      return {
        get: (projectId, id) =>
          Effect.flatMap(findWebhook({ projectId, id }), (found) =>
            found === undefined
              ? failure(projectId, id, webhook_not_found)
              : Effect.succeed(WebhookList.webhookOf(found))
          ),
        listDeliveries: (projectId, id, { cursor, eventType, limit, status }) => {
          const filters = { installationId: id, status, eventType: eventType ?? "all" }
          return Effect.flatMap(
            pages.readById({ projectId, operation: "listDeliveries", filters }, { cursor, limit }, (window) =>
              statement(DeliveryList.page(sql, projectId, id, { status, eventType }, window))
            ),
            ({ items, nextCursor }) =>
              items.length > 0
                ? Effect.succeed({ items: items.map(deliveryOf), nextCursor })
                : Effect.flatMap(statement(Installations.exists(sql, projectId, id)), (exists) =>
                    exists
                      ? Effect.succeed({ items: [], nextCursor })
                      : Effect.fail(Installations.installation_not_found())
                  )
          )
        },
        getDelivery: (projectId, id, deliveryId) =>
          Effect.flatMap(findDelivery({ projectId, id: deliveryId }), (found) =>
            found !== undefined && found.installationId === id
              ? Effect.succeed(detailsOf(found))
              : failure(projectId, id, delivery_not_found)
          )
      }
    })
  )
}

const webhook_not_found = () => new WebhookNotFound({ detail: details.webhook_not_found })

const delivery_not_found = () =>
  new DeliveryNotFound({
    detail: details.delivery_not_found
  })

/** Returns a delivery as callers see it: a delivery in flight is `pending`. */
const deliveryOf = ({ status, ...delivery }: DeliveryList.Delivery): Delivery => ({
  id: delivery.id,
  eventId: delivery.eventId,
  eventType: delivery.eventType,
  status: status === "delivering" ? "pending" : status,
  attempts: delivery.attempts,
  nextAttemptAt: delivery.nextAttemptAt,
  lastStatusCode: delivery.lastStatusCode,
  lastErrorCode: delivery.lastErrorCode,
  replayOf: delivery.replayOf,
  createdAt: delivery.createdAt,
  finishedAt: delivery.finishedAt
})

const detailsOf = (details: Details.Details): DeliveryDetails => ({
  ...deliveryOf(details),
  event: { id: details.eventId, type: details.eventType, timestamp: details.eventTime, data: details.eventData },
  attemptLog: Details.attemptsOf(details)
})
