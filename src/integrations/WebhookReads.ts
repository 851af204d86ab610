/** Reads webhooks and deliveries for callers of the API (contract §10). */
import { Effect, Struct } from "effect"
import { SqlClient } from "effect/sql"
import type { DeliveryId, InstallationId, ProjectId, ReplayId } from "../api/schema/Ids.ts"
import type { Delivery, DeliveryDetails } from "../api/integrations/Deliveries.ts"
import { DeliveryNotFound, InstallationNotFound, ReplayNotFound, WebhookNotFound } from "../api/Problems.ts"
import { statement } from "../sql/Database.ts"
import { lookupBy } from "../sql/Lookups.ts"
import { type PageQuery, Pages } from "../http/pages/Pages.ts"
import * as Details from "./deliveries/DeliveryList.ts"
import * as DeliveryList from "./deliveries/DeliveryList.ts"
import * as ReplayList from "./deliveries/Replays/List.ts"
import * as Installations from "./Installations.ts"
import * as WebhookList from "./endpoints/WebhookList.ts"

export const makeWebhookReads = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const pages = yield* Pages
  const findWebhook = lookupBy(sql, WebhookList.details(sql))
  const findDelivery = lookupBy(sql, Details.details(sql))
  const findReplay = lookupBy(sql, ReplayList.details(sql))

  /** Called only after a read has found nothing, so most requests need one statement. */
  const requireInstallation = (projectId: ProjectId, id: InstallationId) =>
    Effect.flatMap(statement(Installations.exists(sql, projectId, id)), (exists) =>
      exists ? Effect.void : Effect.fail(new InstallationNotFound())
    )

  return {
    get: Effect.fnUntraced(function* (projectId: ProjectId, id: InstallationId) {
      const found = yield* findWebhook({ projectId, id })
      if (found !== undefined) return WebhookList.webhookOf(found)
      yield* requireInstallation(projectId, id)
      return yield* new WebhookNotFound()
    }),
    /** The newest deliveries come first. */
    listDeliveries: Effect.fnUntraced(function* (
      projectId: ProjectId,
      id: InstallationId,
      { eventType, status, ...query }: DeliveryList.PageFilter & PageQuery
    ) {
      const filters = { installationId: id, status, eventType: eventType ?? "all" }
      const { items, nextCursor } = yield* pages.readById(
        { projectId, operation: "listDeliveries", filters },
        query,
        (window) => statement(DeliveryList.page(sql, projectId, id, { status, eventType }, window))
      )
      if (items.length === 0) yield* requireInstallation(projectId, id)
      return { items: items.map(deliveryOf), nextCursor }
    }),
    getDelivery: Effect.fnUntraced(function* (projectId: ProjectId, id: InstallationId, deliveryId: DeliveryId) {
      const found = yield* findDelivery({ projectId, id: deliveryId })
      if (found?.installationId === id) return detailsOf(found)
      yield* requireInstallation(projectId, id)
      return yield* new DeliveryNotFound()
    }),
    getReplay: Effect.fnUntraced(function* (projectId: ProjectId, id: InstallationId, replayId: ReplayId) {
      const found = yield* findReplay({ projectId, id: replayId })
      if (found?.installationId === id) return Struct.omit(found, ["installationId"])
      yield* requireInstallation(projectId, id)
      return yield* new ReplayNotFound()
    })
  }
})

const deliveryOf = (delivery: DeliveryList.Delivery): Delivery => ({
  ...Struct.omit(delivery, ["installationId"]),
  status: delivery.status === "delivering" ? "pending" : delivery.status
})

const detailsOf = (found: Details.Details): DeliveryDetails => ({
  ...deliveryOf(Struct.omit(found, ["log", "deadCode", "eventTime", "eventData", "traceparent"])),
  event: { id: found.eventId, type: found.eventType, timestamp: found.eventTime, data: found.eventData },
  attemptLog: Details.attemptsOf(found)
})
