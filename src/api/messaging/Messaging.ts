/** Endpoints of messaging (contract §8). */
import { Schema } from "effect"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as OpenApi from "effect/http-api/OpenApi"
import { Access } from "../Access.ts"
import { Examples } from "../Examples.ts"
import { text, Timestamp } from "../Fields.ts"
import { MutationHeaders, mutationProblems, replayed } from "../Idempotency.ts"
import { ChannelId, ConversationId, MessageId, ProjectId, SourceId } from "../Ids.ts"
import { page, pageQuery } from "../Page.ts"
import {
  ConversationNotFound,
  CursorInvalid,
  ProjectMismatch,
  ProviderConflict,
  ProviderOutcomeUnknown
} from "../Problems.ts"
import { JsonBody } from "../Requests.ts"

/** The types of providers, each with a connector in `src/messaging/Connectors/`. */
export const providerTypes = ["http", "telegram", "sandbox"] as const
export const ProviderType = Schema.Literals(providerTypes)
export type ProviderType = typeof ProviderType.Type

export const ChannelStatus = Schema.Literals(["active", "revoked"])
export type ChannelStatus = typeof ChannelStatus.Type

/** A source of conversations: a channel as callers see it. */
export const Source = Schema.Struct({
  id: SourceId,
  channelId: ChannelId,
  providerType: ProviderType,
  displayName: text(1, 160),
  status: ChannelStatus,
  capabilities: Schema.Struct({
    textReply: Schema.Boolean.annotate({ description: "Whether a text reply can be sent; false for a revoked source" })
  }),
  connectedAt: Timestamp,
  revokedAt: Schema.NullOr(Timestamp)
}).annotate({ identifier: "DeveloperMessagingSource" })
export type Source = typeof Source.Type

export const ConversationSource = Schema.Struct({
  conversationId: ConversationId,
  source: Source,
  observedAt: Timestamp.annotate({ description: "When the conversation was last seen on this source" })
}).annotate({ identifier: "DeveloperConversationSource" })
export type ConversationSource = typeof ConversationSource.Type

const expectedProjectId = Schema.optionalKey(
  ProjectId.annotate({ description: "Answers `project_mismatch` unless the token is of this project" })
)

const MessageSend = Schema.Struct({
  text: text(1, 4096),
  expectedProjectId
}).annotate({ identifier: "DeveloperMessageSend" })
type MessageSend = typeof MessageSend.Type

export const messageStatuses = ["pending", "retrying", "unknown", "sent", "failed"] as const
export const MessageStatus = Schema.Literals(messageStatuses)
export type MessageStatus = typeof MessageStatus.Type

export const AttemptStatus = Schema.Literals(["pending", "accepted", "retrying", "rejected", "unknown"])
export type AttemptStatus = typeof AttemptStatus.Type

export const MessageAttempt = Schema.Struct({
  number: Schema.Int.check(Schema.isGreaterThan(0, { expected: "an integer from 1" })),
  status: AttemptStatus,
  startedAt: Timestamp,
  finishedAt: Schema.NullOr(Timestamp),
  providerMessageId: Schema.NullOr(Schema.String),
  errorCode: Schema.NullOr(Schema.String),
  nextAttemptAt: Schema.NullOr(Timestamp)
}).annotate({ identifier: "DeveloperMessageAttempt" })
export type MessageAttempt = typeof MessageAttempt.Type

/** The state of a message. Only `sent` is confirmed. */
export const MessageReceipt = Schema.Struct({
  messageId: MessageId,
  conversationId: ConversationId,
  sourceId: SourceId,
  deliveryStatus: MessageStatus,
  createdAt: Timestamp,
  updatedAt: Timestamp,
  attempts: Schema.Array(MessageAttempt)
}).annotate({ identifier: "DeveloperMessageReceipt" })
export type MessageReceipt = typeof MessageReceipt.Type

const sourceExample = {
  id: "src_0193f0cc81b27c4f9a1b2c3d4e5f6071",
  channelId: "chan_sandbox",
  providerType: "sandbox",
  displayName: "Sandbox",
  status: "active",
  capabilities: { textReply: true },
  connectedAt: "2026-11-20T10:00:00.000Z",
  revokedAt: null
}

const conversationExample = "0193f0cb-d4e5-4f70-8192-03a4b5c6d7e8"

const receiptExample = {
  messageId: "msg_0193f0cd92c37d5e8b2c3d4e5f607182",
  conversationId: conversationExample,
  sourceId: sourceExample.id,
  deliveryStatus: "sent",
  createdAt: "2026-11-20T10:05:00.000Z",
  updatedAt: "2026-11-20T10:05:00.120Z",
  attempts: [
    {
      number: 1,
      status: "accepted",
      startedAt: "2026-11-20T10:05:00.000Z",
      finishedAt: "2026-11-20T10:05:00.120Z",
      providerMessageId: "8812",
      errorCode: null,
      nextAttemptAt: null
    }
  ]
}

const conversation = "/v1/developer/messaging/conversations/:conversationId"
const reading = { scope: "messaging.read", module: "messaging", policy: "read" } as const

export class MessagingGroup extends HttpApiGroup.make("messaging")
  .add(
    HttpApiEndpoint.get("listSources", "/v1/developer/messaging/sources", {
      query: { ...pageQuery(2048), expectedProjectId },
      success: page(Source),
      error: [CursorInvalid, ProjectMismatch]
    })
      .annotate(Access, reading)
      .annotate(Examples, { answer: { items: [sourceExample], nextCursor: null } })
      .annotate(OpenApi.Summary, "List the conversation sources")
      .annotate(
        OpenApi.Description,
        "The sources of the project's conversations, newest first: one for each channel, revoked ones included."
      ),
    HttpApiEndpoint.get("getConversationSource", `${conversation}/source`, {
      params: { conversationId: ConversationId },
      query: { expectedProjectId },
      success: ConversationSource,
      error: [ConversationNotFound, ProjectMismatch]
    })
      .annotate(Access, reading)
      .annotate(Examples, {
        answer: {
          conversationId: conversationExample,
          source: sourceExample,
          observedAt: "2026-11-20T10:04:30.000Z"
        }
      })
      .annotate(OpenApi.Summary, "Get the source of a conversation")
      .annotate(OpenApi.Description, "The latest stored source of the conversation."),
    HttpApiEndpoint.post("sendMessage", `${conversation}/messages`, {
      params: { conversationId: ConversationId },
      headers: MutationHeaders,
      payload: MessageSend,
      success: HttpApiSchema.WithHeaders(MessageReceipt, replayed),
      error: [...mutationProblems, ConversationNotFound, ProjectMismatch, ProviderConflict, ProviderOutcomeUnknown]
    })
      .middleware(JsonBody)
      .annotate(Access, { scope: "messaging.write", module: "messaging", policy: "messages" })
      .annotate(Examples, { request: { text: "Your machine is ready." }, answer: receiptExample })
      .annotate(OpenApi.Summary, "Send a text reply")
      .annotate(
        OpenApi.Description,
        "Sends a text into the conversation over its source, once. 200 with `deliveryStatus` `sent` is confirmed. With " +
          "`retrying` the provider has certainly not accepted it yet, and it is retried, with five attempts in all. After 503 " +
          "`provider_outcome_unknown` send the request again with the same `idempotency-key`: it does not send the message " +
          "again, and answers its state: `pending` (200) or unknown (503), later `sent` (200) or `provider_conflict` (409). " +
          "A new key is a new message."
      )
  )
  .annotate(OpenApi.Title, "Messaging")
  .annotate(OpenApi.Description, "Sources of conversations, and text replies.") {}
