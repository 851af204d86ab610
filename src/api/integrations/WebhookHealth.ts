/** The outbound webhook of an installation, with the health of the receiver, as `getWebhook` shows both (contract §10). */
import { Schema } from "effect"
import { HttpApiEndpoint, OpenApi } from "effect/http-api"
import { Access, Examples } from "../Access.ts"
import { recordOf } from "../Endpoints.ts"
import { CreatedAt, Timestamp, UpdatedAt, Version } from "../schema/Fields.ts"
import { InstallationId } from "../schema/Ids.ts"
import { InstallationNotFound, WebhookNotFound } from "../Problems.ts"
import { type EventType, eventTypes } from "./Events.ts"

export const DisabledReason = Schema.Literals(["gone", "failing", "operator"])
export type DisabledReason = typeof DisabledReason.Type

export const pendingMax = 10_000

const LastFailure = Schema.Struct({
  at: Timestamp.annotate({ description: "When the attempt ended: RFC 3339, in UTC, with milliseconds." }),
  statusCode: Schema.NullOr(Schema.Int).annotate({
    description: "The status of the answer; null if there was none."
  }),
  errorCode: Schema.NullOr(Schema.String).annotate({
    description: "Why there was no answer, such as `timeout`; null if there was one."
  })
})

const Health = Schema.Struct({
  state: Schema.Literals(["unused", "healthy", "failing", "parked", "resting"]).annotate({
    description:
      "The state after the last attempt. `unused`: before the first attempt. `parked`: after ten failures in a row, one attempt at a time. `resting`: no attempt until the time in `Retry-After`."
  }),
  failuresInARow: Schema.Int.annotate({
    description: "The number of attempts that have failed since the last success or `configureWebhook`."
  }),
  failingSince: Schema.NullOr(Timestamp).annotate({
    description: "When the first failure since the last success or `configureWebhook` occurred; null if there is none."
  }),
  lastSuccessAt: Schema.NullOr(Timestamp).annotate({
    description: "When an attempt last succeeded; null if no attempt has succeeded."
  }),
  nextAttemptAt: Schema.NullOr(Timestamp).annotate({
    description:
      "The earliest time of the next attempt, pauses of the endpoint included; null if nothing is pending or the webhook is disabled."
  }),
  pending: Schema.Int.annotate({ description: `The number of pending deliveries, counted up to ${pendingMax}.` }),
  lastFailure: Schema.NullOr(LastFailure).annotate({
    description: "The last attempt that failed, kept after a later success; null if no attempt has failed."
  })
})

const Secret = Schema.Struct({
  createdAt: CreatedAt,
  signsUntil: Schema.NullOr(Timestamp).annotate({
    description: "When an earlier secret stops signing; null for the current secret."
  })
})

export const Webhook = Schema.Struct({
  installationId: InstallationId,
  endpointUrl: Schema.String.annotate({ description: "The URL to which events are sent: at most 2048 characters." }),
  eventTypes: Schema.Array(Schema.Literals(eventTypes)).annotate({
    description: "The types of events that are sent: 1 to 20."
  }),
  headerNames: Schema.Array(Schema.String).annotate({
    description: "The names of the headers that the caller has added to each delivery, without their values."
  }),
  enabled: Schema.Boolean.annotate({
    description: "Whether events are sent; a disabled webhook is enabled again when it is configured."
  }),
  disabledReason: Schema.NullOr(DisabledReason).annotate({
    description:
      "Why the webhook is disabled: `gone` (the endpoint answered 410), `failing` (all attempts failed for days) or `operator`; null while it is enabled."
  }),
  version: Version,
  updatedAt: UpdatedAt,
  secrets: Schema.Array(Secret).annotate({
    description:
      "The secrets that sign deliveries now, newest first, at most 3, without their values. Only the answer to a command has a value."
  }),
  health: Health.annotate({ description: "How the endpoint has answered, and which deliveries are pending." })
}).annotate({ identifier: "DeveloperOutboundWebhook" })
export type Webhook = typeof Webhook.Type

const subscribed: ReadonlyArray<EventType> = ["crm.deal.created.v1", "crm.deal.stage_changed.v1"]

const example = {
  installationId: "ins_till",
  endpointUrl: "https://shop.example.com/hooks",
  eventTypes: subscribed,
  headerNames: ["authorization"],
  enabled: true,
  disabledReason: null,
  version: 2,
  updatedAt: "2026-11-20T10:00:00.000Z",
  secrets: [
    { createdAt: "2026-11-20T10:00:00.000Z", signsUntil: null },
    { createdAt: "2026-10-02T08:30:00.000Z", signsUntil: "2026-11-21T10:00:00.000Z" }
  ],
  health: {
    state: "failing",
    failuresInARow: 1,
    failingSince: "2026-11-20T10:05:00.000Z",
    lastSuccessAt: "2026-11-20T10:04:10.000Z",
    nextAttemptAt: "2026-11-20T10:05:05.000Z",
    pending: 1,
    lastFailure: { at: "2026-11-20T10:05:00.000Z", statusCode: 500, errorCode: null }
  }
}

export const getWebhook = HttpApiEndpoint.get(
  "getWebhook",
  "/v1/developer/integrations/:installationId/outbound-webhook",
  {
    params: { installationId: InstallationId },
    ...recordOf(Webhook, InstallationNotFound, WebhookNotFound)
  }
)
  .annotate(Access, { scope: "integrations.operations.read", module: "integrations", policy: "read" })
  .annotate(Examples, { answer: example })
  .annotate(OpenApi.Summary, "Get the outbound webhook")
  .annotate(
    OpenApi.Description,
    "Reads the installation's webhook, without the values of its secrets. The health of its endpoint shows whether events arrive. " +
      "The `etag` is the version of the webhook: commands take it as `expectedVersion`."
  )
