/** Deliveries of events, and the endpoints that show them (contract §10). */
import { Schema } from "effect"
import { HttpApiEndpoint, OpenApi } from "effect/http-api"
import { Access, Examples } from "../Access.ts"
import { CreatedAt, Timestamp } from "../schema/Fields.ts"
import { DeliveryId, EventId, InstallationId } from "../schema/Ids.ts"
import { filterBy, listOf, pageQuery } from "../Endpoints.ts"
import { DeliveryNotFound, InstallationNotFound } from "../Problems.ts"
import { events, type EventType, eventTypes } from "./Events.ts"

/** The states of a delivery that the API shows. A delivery whose attempt is in flight is shown as `pending`. */
export const deliveryStatuses = ["pending", "delivered", "dead"] as const
export const DeliveryStatus = Schema.Literals(deliveryStatuses)
export type DeliveryStatus = typeof DeliveryStatus.Type

const DeliveryStatusFilter = Schema.Literals([...deliveryStatuses, "all"])
export type DeliveryStatusFilter = typeof DeliveryStatusFilter.Type

const StatusCode = Schema.NullOr(Schema.Int)
const ErrorCode = Schema.NullOr(Schema.String)

const deliveryFields = {
  id: DeliveryId.annotate({
    description:
      "The id of the delivery. The `webhook-id` of its attempts is this id, or `replayOf` if the delivery is a replay."
  }),
  eventId: EventId,
  eventType: Schema.Literals(eventTypes).annotate({ description: "The type of the event." }),
  status: DeliveryStatus.annotate({
    description:
      "The state. `pending`: attempts are made. `delivered`: an attempt got 2xx. `dead`: no further attempt follows."
  }),
  attempts: Schema.Int.annotate({ description: "The number of attempts, including one that still runs." }),
  nextAttemptAt: Schema.NullOr(Timestamp).annotate({
    description:
      "The earliest time of the next attempt, pauses of the endpoint included; null if the delivery is finished or the webhook is disabled."
  }),
  lastStatusCode: StatusCode.annotate({
    description: "The status of the answer to the last attempt; null if it got no answer, or there was no attempt."
  }),
  lastErrorCode: ErrorCode.annotate({
    description:
      "Why the last attempt got no answer, or why no attempt followed (`expired`, `disabled`); null in all other cases."
  }),
  replayOf: Schema.NullOr(DeliveryId).annotate({
    description: "The id of the delivery that a replay sent again as this one; null if this is not a replay."
  }),
  replayedBy: Schema.NullOr(DeliveryId).annotate({
    description:
      "The id of the delivery with which a replay delivered this dead one, which the filter `dead` leaves out; null in all other cases."
  }),
  createdAt: CreatedAt,
  finishedAt: Schema.NullOr(Timestamp).annotate({
    description: "When the delivery was delivered or dead-lettered; null while it is pending."
  })
}

export const Delivery = Schema.Struct(deliveryFields).annotate({ identifier: "DeveloperDelivery" })
export type Delivery = typeof Delivery.Type

export const DeliveryAttempt = Schema.Struct({
  number: Schema.Int.annotate({ description: "The number of the attempt, from 1." }),
  startedAt: Timestamp.annotate({ description: "When the attempt began: RFC 3339, in UTC, with milliseconds." }),
  finishedAt: Timestamp.annotate({ description: "When the attempt ended: RFC 3339, in UTC, with milliseconds." }),
  durationMs: Schema.NullOr(Schema.Int).annotate({
    description:
      "How long the attempt took, in milliseconds; null if the process that made the attempt ended before it recorded this."
  }),
  statusCode: StatusCode.annotate({ description: "The status of the answer; null if there was none." }),
  errorCode: ErrorCode.annotate({ description: "Why there was no answer, such as `timeout`; null if there was one." }),
  endpointUrl: Schema.NullOr(Schema.String).annotate({
    description: "The URL that was called; null if the process that made the attempt ended before it recorded this."
  }),
  responseBody: Schema.NullOr(Schema.String).annotate({
    description:
      "The start of the answer to a failed attempt, at most 1024 bytes, as text; null if the attempt succeeded, got no body or is not one of the newest five."
  })
}).annotate({ identifier: "DeveloperDeliveryAttempt" })
export type DeliveryAttempt = typeof DeliveryAttempt.Type

export const DeliveryDetails = Schema.Struct({
  ...deliveryFields,
  event: Schema.Struct({
    id: EventId,
    type: deliveryFields.eventType,
    timestamp: Timestamp.annotate({ description: "When the change was made: RFC 3339, in UTC, with milliseconds." }),
    data: Schema.Record(Schema.String, Schema.Json).annotate({
      description: "The data of the event as it was stored: the member `data` of the webhook of its type."
    })
  }).annotate({ description: "The event, as it is sent." }),
  attemptLog: Schema.Array(DeliveryAttempt).annotate({
    description: "The newest 30 attempts that have ended, the oldest first."
  })
}).annotate({ identifier: "DeveloperDeliveryDetails" })
export type DeliveryDetails = typeof DeliveryDetails.Type

const type: EventType = "crm.deal.created.v1"

const deliveryExample = {
  id: "dlv_0193f0cbd4e57f70819203a4b5c6d7e8",
  eventId: "evt_0193f0cbd4e57f70819203a4b5c6d7e8",
  eventType: type,
  status: "delivered",
  attempts: 2,
  nextAttemptAt: null,
  lastStatusCode: 204,
  lastErrorCode: null,
  replayOf: null,
  replayedBy: null,
  createdAt: "2026-11-20T10:00:00.000Z",
  finishedAt: "2026-11-20T10:00:05.310Z"
}

const detailsExample = {
  ...deliveryExample,
  event: {
    id: deliveryExample.eventId,
    type,
    timestamp: "2026-11-20T10:00:00.000Z",
    data: events[type].example
  },
  attemptLog: [
    {
      number: 1,
      startedAt: "2026-11-20T10:00:00.020Z",
      finishedAt: "2026-11-20T10:00:00.230Z",
      durationMs: 210,
      statusCode: 500,
      errorCode: null,
      endpointUrl: "https://shop.example.com/hooks",
      responseBody: "Out of stock"
    },
    {
      number: 2,
      startedAt: "2026-11-20T10:00:05.260Z",
      finishedAt: "2026-11-20T10:00:05.310Z",
      durationMs: 50,
      statusCode: 204,
      errorCode: null,
      endpointUrl: "https://shop.example.com/hooks",
      responseBody: null
    }
  ]
}

const path = "/v1/developer/integrations/:installationId/outbound-webhook/deliveries"
const reading = { scope: "integrations.operations.read", module: "integrations", policy: "read" } as const

export const listDeliveries = HttpApiEndpoint.get("listDeliveries", path, {
  params: { installationId: InstallationId },
  ...listOf(
    Delivery,
    {
      status: filterBy(DeliveryStatusFilter.literals, "all"),
      eventType: Schema.optionalKey(Schema.Literals(eventTypes)),
      ...pageQuery(512)
    },
    InstallationNotFound
  )
})
  .annotate(Access, reading)
  .annotate(Examples, { answer: { items: [deliveryExample], nextCursor: null } })
  .annotate(OpenApi.Summary, "List the deliveries")
  .annotate(
    OpenApi.Description,
    "Lists the deliveries of events to the installation's webhook, newest first. Finished deliveries are kept for 30 days. " +
      "`retryDelivery` takes the `id` of a dead delivery."
  )

export const getDelivery = HttpApiEndpoint.get("getDelivery", `${path}/:deliveryId`, {
  params: { installationId: InstallationId, deliveryId: DeliveryId },
  success: DeliveryDetails,
  error: [DeliveryNotFound, InstallationNotFound]
})
  .annotate(Access, reading)
  .annotate(Examples, { answer: detailsExample })
  .annotate(OpenApi.Summary, "Get a delivery")
  .annotate(
    OpenApi.Description,
    "Reads a delivery with its event and the log of its attempts, which shows why an event has not arrived. The delivery has ended when `status` is `delivered` or `dead`. " +
      "`deliveryId` is an `id` of `listDeliveries`. That list is empty until an event occurs to which the webhook subscribes."
  )
