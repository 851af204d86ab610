/** What happens in a project and is told to its outbound webhooks: specification, section 6; contract §10. */
import { Schema } from "effect"
import { Deal } from "../crm/Deals.ts"
import { taskFields } from "../crm/Tasks.ts"
import { Timestamp } from "../Fields.ts"
import { ClientId, DealId, EventId, InstallationId, MemberId, ProjectId, StageId, TaskId } from "../Ids.ts"

/** A piece of work. Tasks have no endpoint; operators create and complete them with commands. */
export const Task = Schema.Struct({
  id: TaskId,
  title: taskFields.title,
  dealId: Schema.NullOr(DealId),
  clientId: Schema.NullOr(ClientId),
  assigneeId: Schema.NullOr(MemberId),
  dueAt: Schema.NullOr(Timestamp),
  completedAt: Schema.NullOr(Timestamp),
  createdAt: Timestamp
}).annotate({ identifier: "DeveloperTask" })
export type Task = typeof Task.Type

/** The `data` of each event type: the record as it was when it happened. */
export const eventData = {
  "crm.deal.created.v1": Schema.Struct({ deal: Deal }),
  "crm.deal.updated.v1": Schema.Struct({ deal: Deal }),
  "crm.deal.stage_changed.v1": Schema.Struct({ deal: Deal, previousStageId: StageId }),
  "crm.task.created.v1": Schema.Struct({ task: Task }),
  "crm.task.completed.v1": Schema.Struct({ task: Task })
}
export type EventType = keyof typeof eventData

/** What an operator sends to see whether an endpoint answers: `data` is empty, nothing has happened, nothing is stored. */
export const testEventType = "webhook.test.v1"

export const eventTypes = [
  "crm.deal.created.v1",
  "crm.deal.updated.v1",
  "crm.deal.stage_changed.v1",
  "crm.task.created.v1",
  "crm.task.completed.v1"
] as const satisfies ReadonlyArray<EventType>

/** The body of a delivery: an event as one installation is told of it. */
export const eventBody = <Type extends EventType>(type: Type) =>
  Schema.Struct({
    id: EventId.annotate({ description: "Of the event: the same for every installation" }),
    type: Schema.Literal(type),
    timestamp: Timestamp,
    projectId: ProjectId,
    installationId: InstallationId,
    data: eventData[type]
  }).annotate({ identifier: identifiers[type] })

const identifiers = {
  "crm.deal.created.v1": "DeveloperDealCreatedEvent",
  "crm.deal.updated.v1": "DeveloperDealUpdatedEvent",
  "crm.deal.stage_changed.v1": "DeveloperDealStageChangedEvent",
  "crm.task.created.v1": "DeveloperTaskCreatedEvent",
  "crm.task.completed.v1": "DeveloperTaskCompletedEvent"
} as const satisfies Record<EventType, string>
