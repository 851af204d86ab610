/** Replays of stored events, and the endpoints that start and show them (contract §10). */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiSchema, OpenApi } from "effect/http-api"
import { Access, Examples } from "../Access.ts"
import { CreatedAt, instant, Timestamp } from "../schema/Fields.ts"
import { InstallationId, ReplayId } from "../schema/Ids.ts"
import { MutationHeaders, mutationProblems, Receipt, replayed } from "../Endpoints.ts"
import { InstallationNotFound, ReplayNotFound, WebhookStateConflict } from "../Problems.ts"
import { JsonBody } from "../Requests.ts"
import { type EventType, EventTypes, eventTypes } from "./Events.ts"

/** Which events a replay sends again, by what has become of them at the endpoint. */
export const replayFilters = ["dead", "delivered", "all"] as const
const ReplayFilter = Schema.Literals(replayFilters).annotate({
  description:
    "Which events are sent, by their deliveries. `dead`: those that were not delivered, also because the webhook was disabled; `delivered`; `all`."
})
export type ReplayFilter = typeof ReplayFilter.Type

/** A replay is completed when it has read all events of its period, and cancelled by an operator or with its webhook disabled. */
const ReplayState = Schema.Literals(["running", "completed", "cancelled"])
export type ReplayState = typeof ReplayState.Type

/** What is reported at `since` if no event can be in the period. */
export const emptyPeriod = "must be before `until`, and not in the future"

export const ReplayCreate = Schema.Struct({
  since: instant("Only events of this time or later: RFC 3339."),
  until: Schema.optionalKey(
    instant("Only events before this time: RFC 3339. The default, and the latest, is the moment of the command.")
  ),
  status: ReplayFilter,
  eventTypes: Schema.optionalKey(EventTypes)
}).annotate({ identifier: "DeveloperReplayCreate" })
export type ReplayCreate = typeof ReplayCreate.Type

export const Replay = Schema.Struct({
  id: ReplayId,
  state: ReplayState.annotate({
    description:
      "The state. `running`: deliveries are made. `completed`: all events of the period were read. `cancelled`: by an operator, or as the webhook was disabled."
  }),
  since: Timestamp.annotate({ description: "Events of this time or later are sent." }),
  until: Timestamp.annotate({ description: "Events before this time are sent." }),
  status: ReplayFilter,
  eventTypes: Schema.Array(Schema.Literals(eventTypes)).annotate({ description: "The types of events that are sent." }),
  made: Schema.Int.annotate({ description: "The number of deliveries that the replay has made." }),
  createdAt: CreatedAt,
  finishedAt: Schema.NullOr(Timestamp).annotate({ description: "When the replay ended; null while it is running." })
}).annotate({ identifier: "DeveloperReplay" })
export type Replay = typeof Replay.Type

const types: ReadonlyArray<EventType> = ["crm.deal.created.v1", "crm.deal.stage_changed.v1"]
const asked = { since: "2026-11-20T10:00:00.000Z", status: "dead" } as const
const replayExample = {
  id: "rpl_0193f0cbd4e57f70819203a4b5c6d7e8",
  state: "completed",
  ...asked,
  until: "2026-11-20T12:00:00.000Z",
  eventTypes: types,
  made: 17,
  createdAt: "2026-11-20T12:00:00.000Z",
  finishedAt: "2026-11-20T12:00:04.120Z"
}

const path = "/v1/developer/integrations/:installationId/outbound-webhook/replays"

export const replayDeliveries = HttpApiEndpoint.post("replayDeliveries", path, {
  params: { installationId: InstallationId },
  headers: MutationHeaders,
  payload: ReplayCreate,
  success: HttpApiSchema.WithHeaders(Receipt.pipe(HttpApiSchema.status(201)), replayed),
  error: [...mutationProblems, InstallationNotFound, WebhookStateConflict]
})
  .middleware(JsonBody)
  .annotate(Access, { scope: "integrations.webhooks.write", module: "integrations", policy: "write" })
  .annotate(Examples, { request: asked, answer: { resourceId: replayExample.id, changed: true } })
  .annotate(OpenApi.Summary, "Replay the deliveries of a period")
  .annotate(
    OpenApi.Description,
    "Sends the stored events of a period to the installation's webhook again, the oldest first. Each is a new delivery with the `webhook-id` of the " +
      "one that it repeats. Events with an open delivery, and of types to which the webhook does not subscribe, are left out. The webhook must be " +
      "enabled. `resourceId` is the id of the replay, for `getReplay`."
  )

export const getReplay = HttpApiEndpoint.get("getReplay", `${path}/:replayId`, {
  params: { installationId: InstallationId, replayId: ReplayId },
  success: Replay,
  error: [InstallationNotFound, ReplayNotFound]
})
  .annotate(Access, { scope: "integrations.operations.read", module: "integrations", policy: "read" })
  .annotate(Examples, { answer: replayExample })
  .annotate(OpenApi.Summary, "Get a replay")
  .annotate(
    OpenApi.Description,
    "Reads the progress of a replay. What it has made is delivered like all else: `listDeliveries` shows it. `replayId` is the `resourceId` of `replayDeliveries`."
  )
