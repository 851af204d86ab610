/**
 * Descriptions and examples of the parameters of all operations. The examples name records of the demo project that the requests
 * in the README do not change. The demo project has no deliveries, so the example of a delivery is the id of no record.
 */
import { Predicate } from "effect"
import type { OpenApi } from "effect/http-api"
import { noteExample } from "../crm/Notes.ts"
import { messageExample } from "../messaging/Messaging.ts"

interface Explained {
  readonly description?: string
  readonly example?: string | number
}

const parameters: Readonly<Record<string, Explained>> = {
  "query/status": { description: "Only records of this status; `all` does not filter." },
  "query/lifecycle": { description: "Only records of this lifecycle; `all` does not filter." },
  "query/eventType": { description: "Only deliveries of events of this type; absent for all types." },
  "query/externalId": { description: "Only the record with this external id: 1 to 160 characters." },
  "query/email": {
    description: "Only clients with this mail address, in upper or lower case: at most 254 characters."
  },
  "query/phone": { description: "Only clients with this phone number in E.164 form, `+` and 2 to 15 digits." },
  "query/clientId": { description: "Only records of this client: an id of 1 to 160 characters." },
  "query/sourceId": { description: "Only conversations on this source: an id of 1 to 160 characters." },
  "query/stageId": { description: "Only deals on this stage: an id of 1 to 160 characters." },
  "query/updatedSince": {
    description:
      "Only records whose `updatedAt` is this time or later (RFC 3339), in the order of their changes: by `updatedAt`, then by `id`, ascending."
  },
  "query/limit": { description: "The maximum number of records on a page: 1 to 100, by default 50.", example: 50 },
  "query/cursor": {},
  // An example would be one key for the requests of all readers, so that the second is a repetition of the first.
  "header/idempotency-key": {},
  "header/if-match": {},
  "header/if-none-match": {},
  "query/expectedVersion": {
    description:
      "The `version` that the caller has read, from 1 (the ETag of the last answer). The command is refused if the record has another version.",
    // Only deleteNote has this parameter. The sample before it, of patchNote, changes the same note to version 2.
    example: 2
  },
  "query/expectedProjectId": {},
  "path/clientId": { description: "The id of the client: 1 to 160 characters.", example: "cli_mara" },
  "path/externalId": {
    description: "The id of the record in another system: 1 to 160 characters.",
    example: "shop-2001"
  },
  "path/dealId": { description: "The id of the deal: 1 to 160 characters.", example: "deal_espresso" },
  "path/noteId": {
    description:
      "The id of the note: 1 to 160 characters. It is the `resourceId` that createNote answers, and an `id` of listNotes.",
    example: noteExample.id
  },
  "path/ticketId": {
    description: "The id of the ticket: 1 to 160 characters. It is an `id` of listTickets.",
    example: "tic_descaling"
  },
  "path/conversationId": {
    description: "The id of the conversation: a UUID, in either case. It is an `id` of listConversations.",
    example: "0193f0cb-d4e5-4f70-8192-03a4b5c6d7e8"
  },
  "path/messageId": {
    description: "The id of the message: 1 to 160 characters. It is the `messageId` that sendMessage answers.",
    example: messageExample.messageId
  },
  "path/campaignId": { description: "The id of the campaign: 1 to 160 characters.", example: "cmp_roastery" },
  "path/installationId": { description: "The id of the installation: 1 to 160 characters.", example: "ins_till" },
  "path/deliveryId": {
    description:
      "The id of the delivery, the `webhook-id` of its attempts: 1 to 160 characters. Use an `id` of listDeliveries instead of the example.",
    example: "dlv_0193f0cbd4e57f70819203a4b5c6d7e8"
  },
  "path/replayId": {
    description:
      "The id of the replay: 1 to 160 characters. Use the `resourceId` that replayDeliveries answers instead of the example.",
    example: "rpl_0193f0cbd4e57f70819203a4b5c6d7e8"
  }
}

const requestId: OpenApi.OpenAPISpecParameter = {
  name: "x-request-id",
  in: "header",
  required: false,
  description:
    "The id of the request, for the `x-request-id` of the answer and the logs: 1 to 128 characters of A-Z a-z 0-9 . _ -. If it is " +
    "absent or has another form, the service makes one.",
  schema: { type: "string" }
}

export const completeParameters = (operation: OpenApi.OpenAPISpecOperation): void => {
  for (const parameter of operation.parameters) {
    parameter.schema = flat(parameter.schema)
    const { description = descriptionOf(parameter.schema), example } =
      parameters[`${parameter.in}/${parameter.name}`] ?? {}
    parameter.description = description
    if (example !== undefined) Object.assign(parameter, { example })
  }
  operation.parameters.push(Object.assign({}, requestId, { example: "9debd0f1-f55a-4acb-bbbe-86daffe87bd6" }))
}

/** Merges the schemas of an `allOf`, as of the integer check of `limit`, because generators and viewers show a single schema better. */
export const flat = (schema: object): object => {
  if (!Predicate.hasProperty(schema, "allOf") || !Array.isArray(schema.allOf)) return schema
  const { allOf, ...own } = schema
  return Object.assign({}, own, ...allOf)
}

export const descriptionOf = (schema: object): string =>
  Predicate.hasProperty(schema, "description") ? String(schema.description) : ""
