/** The events of a project that its outbound webhooks receive (contract §10). */
import { Effect, Schema, SchemaGetter, Struct } from "effect"
import { Client, clientExample, clientFields } from "../crm/Clients.ts"
import { Deal, dealExample, dealFields } from "../crm/Deals.ts"
import { CreatedAt, Instant, text, Timestamp } from "../schema/Fields.ts"
import { ClientId, DealId, EventId, InstallationId, MemberId, ProjectId, StageId, TaskId } from "../schema/Ids.ts"

/** The fields of tasks, with their types in commands, the project file and imports. */
export const taskFields = {
  title: text(1, 160).annotate({ description: "What is to be done: 1 to 160 characters." }),
  dueAt: Schema.NullOr(Instant)
}

/** A task. Tasks have no endpoint; operators create and complete them with commands. */
export const Task = Schema.Struct({
  id: TaskId,
  title: taskFields.title,
  dealId: Schema.NullOr(DealId).annotate({
    description: "The id of the deal that the task is about; null if there is none."
  }),
  clientId: Schema.NullOr(ClientId).annotate({
    description: "The id of the client whom the task is about; null if there is none."
  }),
  assigneeId: Schema.NullOr(MemberId).annotate({
    description: "The id of the member who has to do the task; null if there is none."
  }),
  dueAt: Schema.NullOr(Timestamp).annotate({ description: "When the task is due; null if it has no due time." }),
  completedAt: Schema.NullOr(Timestamp).annotate({
    description: "When the task was completed; null while it is open."
  }),
  createdAt: CreatedAt
}).annotate({ identifier: "DeveloperTask" })

const dealOf = Deal.annotateKey({ description: "The deal after the change." })

const clientOf = Client.annotateKey({ description: "The client after the change." })

const erasedClient = Schema.Struct(Struct.pick(Client.fields, ["id", "externalId"])).annotate({
  identifier: "DeveloperErasedClient"
})

const altered = {
  description:
    "The values that the altered members had before the change, without `version` and `updatedAt`. Older events have no `previous`."
}
const previous = Schema.Struct(Struct.map({ ...dealFields, closedAt: Deal.fields.closedAt }, Schema.optionalKey))
  .annotate(altered)
  .pipe(Schema.withDecodingDefaultKey(Effect.succeed({})))
const previousClient = Schema.Struct(
  Struct.map({ ...clientFields, archivedAt: Client.fields.archivedAt }, Schema.optionalKey)
)
  .annotate(altered)
  .pipe(Schema.withDecodingDefaultKey(Effect.succeed({})))

const taskOf = Task.annotateKey({ description: "The task after the change." })

const dataWith = <Fields extends Schema.Struct.Fields>(fields: Fields) =>
  Schema.Struct(fields).annotate({
    description: "The record of the event, with the values at the time of the event."
  })

const deal = { ...dealExample, stageId: "stage_offer", version: 2 }

const task = {
  id: "task_0193f0cae4f58071829304a5b6c7d8e9",
  title: "Call back about the offer",
  dealId: deal.id,
  clientId: null,
  assigneeId: null,
  dueAt: "2026-11-27T09:00:00.000Z",
  completedAt: null,
  createdAt: "2026-11-20T10:00:00.000Z"
}

/**
 * All event types. Each has the name of its schema in the OpenAPI document, a summary of the change that emits it, its `data`
 * (the record at the time of the event), and an example of the `data`.
 */
export const events = {
  "crm.client.created.v1": {
    identifier: "DeveloperClientCreatedEvent",
    summary: "A client was created",
    data: dataWith({ client: clientOf }),
    example: { client: clientExample }
  },
  "crm.client.updated.v1": {
    identifier: "DeveloperClientUpdatedEvent",
    summary: "A client was changed",
    data: dataWith({ client: clientOf, previous: previousClient }),
    example: { client: { ...clientExample, phone: null, version: 2 }, previous: { phone: clientExample.phone } }
  },
  "crm.client.erased.v1": {
    identifier: "DeveloperClientErasedEvent",
    summary: "A client was erased",
    data: dataWith({ client: erasedClient.annotateKey({ description: "What is left of the client: its ids." }) }),
    example: { client: { id: clientExample.id, externalId: clientExample.externalId } }
  },
  "crm.deal.created.v1": {
    identifier: "DeveloperDealCreatedEvent",
    summary: "A deal was created",
    data: dataWith({ deal: dealOf }),
    example: { deal: { ...deal, version: 1 } }
  },
  "crm.deal.updated.v1": {
    identifier: "DeveloperDealUpdatedEvent",
    summary: "A deal was changed",
    data: dataWith({ deal: dealOf, previous }),
    example: { deal, previous: { stageId: "stage_talking" } }
  },
  "crm.deal.stage_changed.v1": {
    identifier: "DeveloperDealStageChangedEvent",
    summary: "A deal moved to another stage",
    data: dataWith({
      deal: dealOf,
      previousStageId: StageId.annotate({ description: "The id of the stage that the deal was on before the change." }),
      previous
    }),
    example: { deal, previousStageId: "stage_talking", previous: { stageId: "stage_talking" } }
  },
  "crm.task.created.v1": {
    identifier: "DeveloperTaskCreatedEvent",
    summary: "A task was created",
    data: dataWith({ task: taskOf }),
    example: { task }
  },
  "crm.task.completed.v1": {
    identifier: "DeveloperTaskCompletedEvent",
    summary: "A task was completed",
    data: dataWith({ task: taskOf }),
    example: { task: { ...task, completedAt: "2026-11-20T11:30:00.000Z" } }
  }
}
export type EventType = keyof typeof events

/** The type of the event by which callers and operators test an endpoint. Its `data` is empty, and the event is not stored. */
export const testEventType = "webhook.test.v1"

export const eventTypes: ReadonlyArray<EventType> = Struct.keys(events)

/** The types of events that a command names. They are decoded to a sorted list without repeats. */
export const EventTypes = Schema.Array(Schema.Literals(eventTypes))
  .check(Schema.isBetweenLength(1, 20, { expected: "1 to 20 event types" }))
  .annotate({ description: "The types of events to send, 1 to 20. Order and repeats have no meaning." })
  .pipe(
    Schema.decode({
      decode: SchemaGetter.transform((types: ReadonlyArray<EventType>) => [...new Set(types)].toSorted()),
      encode: SchemaGetter.passthrough()
    })
  )

/** The body of a delivery: an event, addressed to one installation. */
export const eventBody = <Type extends EventType>(type: Type) =>
  Schema.Struct({
    id: EventId.annotate({ description: "The id of the event, the same for every installation: 1 to 160 characters." }),
    type: Schema.Literal(type).annotate({ description: "The type of the event, with its version." }),
    timestamp: Timestamp.annotate({ description: "When the change was made: RFC 3339, in UTC, with milliseconds." }),
    projectId: ProjectId.annotate({ description: "The id of the project in which the event occurred." }),
    installationId: InstallationId.annotate({ description: "The id of the installation that this delivery is for." }),
    data: dataOf(type)
  }).annotate({ identifier: events[type].identifier })

const dataOf = <Type extends EventType>(type: Type): (typeof events)[Type]["data"] => events[type].data

/** The body as a receiver gets it. An event that is sent after its client was erased has the ids alone; `verifyWebhook` maps it. */
export const sentBody = (type: EventType) => {
  const body = eventBody(type)
  if (type !== "crm.client.created.v1" && type !== "crm.client.updated.v1") return body
  const client = Schema.Union([Client, erasedClient]).annotate({
    description: "The client after the change; the ids alone if the client was erased before the event is sent."
  })
  return Schema.Struct({ ...body.fields, data: dataWith({ ...events[type].data.fields, client }) }).annotate({
    identifier: events[type].identifier
  })
}
