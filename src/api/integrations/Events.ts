/** The events of a project that its outbound webhooks receive (contract §10). */
import { Schema, Struct } from "effect"
import { Deal, dealExample } from "../crm/Deals.ts"
import { taskFields } from "../crm/Tasks.ts"
import { Timestamp } from "../Fields.ts"
import { ClientId, DealId, EventId, InstallationId, MemberId, ProjectId, StageId, TaskId } from "../Ids.ts"

/** A task. Tasks have no endpoint; operators create and complete them with commands. */
const Task = Schema.Struct({
  id: TaskId,
  title: taskFields.title,
  dealId: Schema.NullOr(DealId),
  clientId: Schema.NullOr(ClientId),
  assigneeId: Schema.NullOr(MemberId),
  dueAt: Schema.NullOr(Timestamp),
  completedAt: Schema.NullOr(Timestamp),
  createdAt: Timestamp
}).annotate({ identifier: "DeveloperTask" })
type Task = typeof Task.Type

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
 * Every event type, with the name of its schema in the document, when it is emitted, its `data` (the record at the time of
 * the event), and an example of that.
 */
export const events = {
  "crm.deal.created.v1": {
    identifier: "DeveloperDealCreatedEvent",
    summary: "A deal was created",
    data: Schema.Struct({ deal: Deal }),
    example: { deal: { ...deal, version: 1 } }
  },
  "crm.deal.updated.v1": {
    identifier: "DeveloperDealUpdatedEvent",
    summary: "A deal was changed",
    data: Schema.Struct({ deal: Deal }),
    example: { deal }
  },
  "crm.deal.stage_changed.v1": {
    identifier: "DeveloperDealStageChangedEvent",
    summary: "A deal moved to another stage",
    data: Schema.Struct({ deal: Deal, previousStageId: StageId }),
    example: { deal, previousStageId: "stage_talking" }
  },
  "crm.task.created.v1": {
    identifier: "DeveloperTaskCreatedEvent",
    summary: "A task was created",
    data: Schema.Struct({ task: Task }),
    example: { task }
  },
  "crm.task.completed.v1": {
    identifier: "DeveloperTaskCompletedEvent",
    summary: "A task was completed",
    data: Schema.Struct({ task: Task }),
    example: { task: { ...task, completedAt: "2026-11-20T11:30:00.000Z" } }
  }
}
export type EventType = keyof typeof events

/** The type of an operator's test of an endpoint. Its `data` is empty, and no event is stored. */
export const testEventType = "webhook.test.v1"

export const eventTypes: ReadonlyArray<EventType> = Struct.keys(events)

/** The body of a delivery: an event, addressed to one installation. */
export const eventBody = <Type extends EventType>(type: Type) =>
  Schema.Struct({
    id: EventId.annotate({ description: "Of the event: the same for every installation" }),
    type: Schema.Literal(type),
    timestamp: Timestamp,
    projectId: ProjectId,
    installationId: InstallationId,
    data: dataOf(type)
  }).annotate({ identifier: events[type].identifier })

const dataOf = <Type extends EventType>(type: Type): (typeof events)[Type]["data"] => events[type].data
