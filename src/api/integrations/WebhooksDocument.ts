/** What the OpenAPI document says of the webhooks that the service sends: specification, section 6; contract §10. */
import { JsonSchema, Schema } from "effect"
import { type EventType, eventBody, eventTypes } from "./Events.ts"

const deal = {
  id: "deal_0193f0c9b2c37d5e8f60718293a4b5c6",
  title: "Espresso machines for the harbour",
  clientId: "cli_0193f0c8a1b27c4d9e5f60718293a4b5",
  organizationId: null,
  pipelineId: "pipe_sales",
  stageId: "stage_offer",
  status: "open",
  lifecycle: "active",
  amountMinor: 1250000,
  currency: "EUR",
  expectedCloseDate: "2026-12-15",
  responsibleMemberId: null,
  lostReason: null,
  closedAt: null,
  version: 2,
  createdAt: "2026-11-20T09:00:00.000Z",
  updatedAt: "2026-11-20T10:00:00.000Z"
}

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

/** When each event is told, and an example of its `data`. */
const told: Readonly<Record<EventType, { readonly summary: string; readonly data: object }>> = {
  "crm.deal.created.v1": { summary: "A deal was created", data: { deal: { ...deal, version: 1 } } },
  "crm.deal.updated.v1": { summary: "A deal was changed", data: { deal } },
  "crm.deal.stage_changed.v1": {
    summary: "A deal moved to another stage",
    data: { deal, previousStageId: "stage_talking" }
  },
  "crm.task.created.v1": { summary: "A task was created", data: { task } },
  "crm.task.completed.v1": {
    summary: "A task was completed",
    data: { task: { ...task, completedAt: "2026-11-20T11:30:00.000Z" } }
  }
}

/** An example of each event's body, as it is sent. */
export const eventExample = (type: EventType) => ({
  id: "evt_0193f0cbd4e57f70819203a4b5c6d7e8",
  type,
  timestamp: "2026-11-20T10:00:00.000Z",
  projectId: "demo",
  installationId: "ins_shop",
  data: told[type].data
})

const header = (name: string, description: string) => ({
  name,
  in: "header",
  required: true,
  description,
  schema: { type: "string" }
})

const headers = [
  header("webhook-id", "Of the delivery: the same for each attempt, so a delivery that comes twice can be told."),
  header("webhook-timestamp", "Seconds since 1970 at this attempt. Refuse what is older than five minutes."),
  header(
    "webhook-signature",
    "Standard Webhooks: for each signing secret, separated by spaces, `v1,` and the base64 HMAC-SHA-256 of " +
      "`{webhook-id}.{webhook-timestamp}.{body}`. For 24 hours after a rotation there are two."
  ),
  header("traceparent", "In the trace of the request that caused the event (W3C Trace Context).")
]

const responses = {
  "2XX": { description: "Taken. The answer has to be whole within 15 s; its body is not looked at." },
  "410": { description: "The endpoint is gone: the webhook is disabled, and what waits for it is given up." },
  default: {
    description:
      "Not taken: redirects are not followed, and everything but 2xx is tried again, eleven times in all, over three days. " +
      "`Retry-After` on 429 and 503 is honoured. Then the delivery is dead, until its retry operation revives it."
  }
}

const operation = (type: EventType, schema: object) => ({
  operationId: type,
  summary: told[type].summary,
  description: `Sent to the outbound webhooks that subscribe to \`${type}\`, at least once.`,
  // It is the receiver who checks, by the signature.
  security: [],
  parameters: headers,
  requestBody: { required: true, content: { "application/json": { schema, example: eventExample(type) } } },
  responses
})

const documents = eventTypes.map((type) => {
  const { definitions, schema } = Schema.toJsonSchemaDocument(eventBody(type))
  return { type, ...JsonSchema.toMultiDocumentOpenApi3_1({ dialect: "draft-2020-12", schemas: [schema], definitions }) }
})

/** The document's `webhooks`. */
export const webhooks = Object.fromEntries(
  documents.map(({ schemas: [schema], type }) => [type, { post: operation(type, schema) }])
)

/** The schemas that they refer to. */
export const webhookSchemas: JsonSchema.Definitions = Object.assign(
  {},
  ...documents.map(({ definitions }) => definitions)
)
