/** The `webhooks` of the OpenAPI document, one for each event type (contract §10). */
import { JsonSchema, Schema } from "effect"
import { type EventType, events, eventTypes, sentBody } from "./Events.ts"

const eventExample = (type: EventType) => ({
  id: "evt_0193f0cbd4e57f70819203a4b5c6d7e8",
  type,
  timestamp: "2026-11-20T10:00:00.000Z",
  projectId: "demo",
  installationId: "ins_till",
  data: events[type].example
})

const header = (name: string, description: string) => ({
  name,
  in: "header",
  required: true,
  description,
  schema: { type: "string" }
})

const headers = [
  header(
    "webhook-id",
    "The same for each attempt of a delivery and for each replay of it. It identifies a repeated delivery."
  ),
  header(
    "webhook-timestamp",
    "Seconds since 1970 at this attempt. Refuse deliveries that are older than five minutes."
  ),
  header(
    "webhook-signature",
    "Standard Webhooks: for each signing secret, separated by spaces, `v1,` and the base64 HMAC-SHA-256 of " +
      "`{webhook-id}.{webhook-timestamp}.{body}`. For 24 hours after a rotation there are two, after several rotations at most three."
  ),
  header("traceparent", "The trace context (W3C) of the request that caused the event.")
]

const responses = {
  "2XX": { description: "Accepted. The answer must be complete within 15 s; its body is ignored." },
  "410": {
    description: "The endpoint no longer exists: the webhook is disabled, and its open deliveries are dead-lettered."
  },
  default: {
    description:
      "Not accepted. Redirects are not followed. Every answer other than 2xx and 410 is retried, with at most eleven attempts in " +
      "about three days. `Retry-After` of 429 and 503 is honoured. After the last attempt the delivery is dead until `retryDelivery`."
  }
}

/** A task has no version, and neither has a client who was erased. */
const orderOf = (type: EventType) => {
  if (type === "crm.client.erased.v1") return " Order is not kept: drop older events of the client that arrive later."
  const record = ["client", "deal"].find((record) => record in events[type].example)
  return record === undefined
    ? ""
    : ` Order is not kept: keep what you have, unless \`data.${record}.version\` is higher than the version of it.`
}

const operation = (type: EventType, schema: object) => ({
  operationId: type,
  summary: events[type].summary,
  description: `Sent to the outbound webhooks that subscribe to \`${type}\`, at least once.${orderOf(type)}`,
  // The receiver verifies the signature; the service sends no credential.
  security: [],
  parameters: headers,
  requestBody: {
    required: true,
    content: { "application/json": { schema, examples: { [type]: { value: eventExample(type) } } } }
  },
  responses
})

const documents = eventTypes.map((type) => {
  const { definitions, schema } = Schema.toJsonSchemaDocument(sentBody(type))
  return { type, ...JsonSchema.toMultiDocumentOpenApi3_1({ dialect: "draft-2020-12", schemas: [schema], definitions }) }
})

export const webhooks = Object.fromEntries(
  documents.map(({ schemas: [schema], type }) => [type, { post: operation(type, schema) }])
)

export const webhookSchemas: JsonSchema.Definitions = Object.assign(
  {},
  ...documents.map(({ definitions }) => definitions)
)
