/** Endpoints that list sources, send text replies and show messages (contract §8). */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Access, Examples } from "../Access.ts"
import { CreatedAt, text, Timestamp, UpdatedAt } from "../schema/Fields.ts"
import { listOf, MutationHeaders, mutationProblems, pageQuery, replayed } from "../Endpoints.ts"
import { ChannelId, ClientId, ConversationId, MessageId, ProjectId, SourceId } from "../schema/Ids.ts"
import {
  ConversationNotFound,
  MessageNotFound,
  ProjectMismatch,
  ProviderConflict,
  ProviderOutcomeUnknown
} from "../Problems.ts"
import { JsonBody } from "../Requests.ts"

/** The types of providers. Each type has a connector, which calls the provider. */
export const providerTypes = ["http", "telegram", "sandbox"] as const
export const ProviderType = Schema.Literals(providerTypes)
export type ProviderType = typeof ProviderType.Type

export const ChannelStatus = Schema.Literals(["active", "revoked"])
export type ChannelStatus = typeof ChannelStatus.Type

/** A source of conversations: a channel as callers see it. */
export const Source = Schema.Struct({
  id: SourceId,
  channelId: ChannelId.annotate({ description: "The id of the channel that the source stands for." }),
  providerType: ProviderType.annotate({ description: "The type of the provider that carries the messages." }),
  displayName: text(1, 160).annotate({ description: "The name under which the source is shown: 1 to 160 characters." }),
  status: ChannelStatus.annotate({
    description: "Whether messages can be sent over the channel: a revoked channel sends none."
  }),
  capabilities: Schema.Struct({
    textReply: Schema.Boolean.annotate({ description: "Whether a text reply can be sent; false for a revoked source." })
  }).annotate({ description: "What can be done over the source." }),
  connectedAt: Timestamp.annotate({
    description: "When the channel was connected: RFC 3339, in UTC, with milliseconds."
  }),
  revokedAt: Schema.NullOr(Timestamp).annotate({
    description: "When the channel was revoked; null while it is active."
  })
}).annotate({ identifier: "DeveloperMessagingSource" })
export type Source = typeof Source.Type

export const ConversationSource = Schema.Struct({
  conversationId: ConversationId,
  source: Source.annotateKey({ description: "The latest source on which the conversation was seen." }),
  observedAt: Timestamp.annotate({
    description: "When the conversation was last seen on this source: RFC 3339, in UTC, with milliseconds."
  })
}).annotate({ identifier: "DeveloperConversationSource" })
export type ConversationSource = typeof ConversationSource.Type

export const Conversation = Schema.Struct({
  id: ConversationId,
  clientId: Schema.NullOr(ClientId).annotate({
    description: "The id of the client with whom it is held; null if that is unknown."
  }),
  sourceId: SourceId.annotate({ description: "The id of the latest source on which it was seen." })
}).annotate({ identifier: "DeveloperConversation" })
export type Conversation = typeof Conversation.Type

export interface ConversationFilters {
  readonly clientId?: ClientId | undefined
  readonly sourceId?: SourceId | undefined
}

const expectedProjectId = Schema.optionalKey(
  ProjectId.annotate({
    description:
      "The id of the project that the caller expects. A token of another project is refused with `project_mismatch`."
  })
)

const MessageSend = Schema.Struct({
  text: text(1, 4096).annotate({ description: "The text to send: 1 to 4096 characters." }),
  expectedProjectId
}).annotate({ identifier: "DeveloperMessageSend" })

export const messageStatuses = ["pending", "retrying", "unknown", "sent", "failed"] as const
export const MessageStatus = Schema.Literals(messageStatuses)
export type MessageStatus = typeof MessageStatus.Type

export const AttemptStatus = Schema.Literals(["pending", "accepted", "retrying", "rejected", "unknown"])
export type AttemptStatus = typeof AttemptStatus.Type

export const MessageAttempt = Schema.Struct({
  number: Schema.Int.check(Schema.isGreaterThan(0, { expected: "an integer from 1" })).annotate({
    description: "The number of the attempt, from 1."
  }),
  status: AttemptStatus.annotate({
    description:
      "The outcome. `accepted`, `rejected`: the provider has answered so. `retrying`: the provider has certainly not accepted the " +
      "message. `unknown`: the provider may have accepted it. `pending`: the attempt runs."
  }),
  startedAt: Timestamp.annotate({ description: "When the attempt began: RFC 3339, in UTC, with milliseconds." }),
  finishedAt: Schema.NullOr(Timestamp).annotate({ description: "When the attempt ended; null while it runs." }),
  providerMessageId: Schema.NullOr(Schema.String).annotate({
    description: "The id that the provider gave the message; null if it gave none."
  }),
  errorCode: Schema.NullOr(Schema.String).annotate({ description: "Why the attempt failed; null if it did not fail." }),
  nextAttemptAt: Schema.NullOr(Timestamp).annotate({
    description: "When the next attempt is due; null if none follows."
  })
}).annotate({ identifier: "DeveloperMessageAttempt" })
export type MessageAttempt = typeof MessageAttempt.Type

export const MessageReceipt = Schema.Struct({
  messageId: MessageId,
  conversationId: ConversationId,
  sourceId: SourceId.annotate({ description: "The id of the source over which the message is sent." }),
  deliveryStatus: MessageStatus.annotate({
    description:
      "The state of the message. `sent`: confirmed. `pending`, `retrying`: not finished. `failed`: not sent. `unknown`: the " +
      "provider may have accepted it."
  }),
  createdAt: CreatedAt,
  updatedAt: UpdatedAt,
  attempts: Schema.Array(MessageAttempt).annotate({
    description: "The attempts to send the message, the oldest first. Of those without a call, the newest are kept."
  })
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

/** The message in the samples of the OpenAPI document. The first start of a service writes it into the demo project. */
export const messageExample = {
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
    HttpApiEndpoint.get(
      "listSources",
      "/v1/developer/messaging/sources",
      listOf(Source, { ...pageQuery(2048), expectedProjectId }, ProjectMismatch)
    )
      .annotate(Access, reading)
      .annotate(Examples, { answer: { items: [sourceExample], nextCursor: null } })
      .annotate(OpenApi.Summary, "List the conversation sources")
      .annotate(
        OpenApi.Description,
        "Lists the sources of conversations, newest first, one for each channel, including revoked ones."
      ),
    HttpApiEndpoint.get("listConversations", "/v1/developer/messaging/conversations", {
      ...listOf(
        Conversation,
        {
          clientId: Schema.optionalKey(ClientId),
          sourceId: Schema.optionalKey(SourceId),
          ...pageQuery(2048),
          expectedProjectId
        },
        ProjectMismatch
      )
    })
      .annotate(Access, reading)
      .annotate(Examples, {
        answer: {
          items: [{ id: conversationExample, clientId: "cli_mara", sourceId: sourceExample.id }],
          nextCursor: null
        }
      })
      .annotate(OpenApi.Summary, "List conversations")
      .annotate(
        OpenApi.Description,
        "Lists the project's conversations, ordered by id. `sendMessage` takes the `id` of a conversation."
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
      .annotate(
        OpenApi.Description,
        "Reads the source over which a reply would be sent: the latest that is stored for the conversation."
      ),
    HttpApiEndpoint.post("sendMessage", `${conversation}/messages`, {
      params: { conversationId: ConversationId },
      headers: MutationHeaders,
      payload: MessageSend,
      success: HttpApiSchema.WithHeaders(MessageReceipt, replayed),
      error: [...mutationProblems, ConversationNotFound, ProjectMismatch, ProviderConflict, ProviderOutcomeUnknown]
    })
      .middleware(JsonBody)
      .annotate(Access, { scope: "messaging.write", module: "messaging", policy: "messages" })
      .annotate(Examples, { request: { text: "Your machine is ready." }, answer: messageExample })
      .annotate(OpenApi.Summary, "Send a text reply")
      .annotate(
        OpenApi.Description,
        "Sends a text once to the person in the conversation, over its source. 200 with `deliveryStatus` `sent` is confirmed. " +
          "`retrying`: the provider has certainly not accepted the message yet; it is retried, with at most five attempts in all. After 503 " +
          "`provider_outcome_unknown`, send the request again with the same `idempotency-key`. This does not send the message " +
          "again. The answer has its state: 200 `pending` or `retrying`, 503 while it is unknown, later 200 `sent` or 409 `provider_conflict`. " +
          "A new key is a new message."
      ),
    HttpApiEndpoint.get("getMessage", `${conversation}/messages/:messageId`, {
      params: { conversationId: ConversationId, messageId: MessageId },
      query: { expectedProjectId },
      success: MessageReceipt,
      error: [ConversationNotFound, MessageNotFound, ProjectMismatch]
    })
      .annotate(Access, reading)
      .annotate(Examples, { answer: messageExample })
      .annotate(OpenApi.Summary, "Get a message")
      .annotate(
        OpenApi.Description,
        "Reads a message: its state and its attempts. The states `sent` and `failed` are final. An operator settles a message that " +
          "stays `unknown`."
      )
  )
  .annotate(OpenApi.Title, "Messaging")
  .annotate(OpenApi.Description, "Sources of conversations, and text replies with their receipts.") {}
