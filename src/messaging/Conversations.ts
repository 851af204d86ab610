/**
 * Conversations and their sources, which are the project's channels as callers see them (project files create them), and text replies
 * (contract §8). A repeated reply does not send the message again, but returns its state.
 */
import { Duration, Effect, Option, Schedule, Struct } from "effect"
import { SqlClient } from "effect/sql"
import {
  type Conversation,
  type ConversationFilters,
  type ConversationSource,
  MessageAttempt,
  MessageReceipt,
  type Source
} from "../api/messaging/Messaging.ts"
import { type ConversationId, MessageId, type ProjectId } from "../api/schema/Ids.ts"
import { statement, withOwnTime } from "../sql/Database.ts"
import { pageCondition, pageConditionById, pageLimit, type PageQuery, Pages, type Window } from "../http/pages/Pages.ts"
import {
  ConversationNotFound,
  MessageNotFound,
  ProviderOutcomeUnknown,
  type ServiceUnavailable
} from "../api/Problems.ts"
import { selectList } from "../sql/Columns.ts"
import type { Command } from "../commands/Command.ts"
import { mutate, Mutations } from "../commands/Mutations.ts"
import { newId } from "../platform/Ids.ts"
import { eventContext } from "../outbox/Outbox.ts"
import { Settings } from "../platform/Settings.ts"
import { databaseNow, later } from "../sql/Times.ts"
import { Calls } from "./Calls.ts"
import { create, type Destination, find, type Message, receiptColumns } from "./Message.ts"
import { lookupBy, plannedOnce } from "../sql/Lookups.ts"

/** If the outcome of a stored message cannot be recorded or read, fails with a problem that has the id of the message. */
const withMessageId = <A>(messageId: MessageId, message: Effect.Effect<A, ServiceUnavailable>) =>
  Effect.mapError(
    message,
    ({ detail = "" }) => new ProviderOutcomeUnknown({ detail: `${detail} Keep the idempotency-key.`, messageId })
  )

/** The current state of a message, and whether an earlier request has created the message. */
export interface Sent {
  readonly message: Message
  readonly replayed: boolean
}

/**
 * Makes the command that creates a message and calls the provider. A repeated command makes no call, but waits for the outcome
 * of a call in flight.
 */
export const makeSend = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const mutations = yield* Mutations
  const calls = yield* Calls
  const { providerTimeout } = yield* Settings
  const now = yield* databaseNow(sql)

  /** Reads a message. A call to the provider may have used up the time of the request, so the read has its own time limit. */
  const current = (projectId: ProjectId, id: MessageId) =>
    now.pipe(
      Effect.flatMap((now) => statement(find(sql, now, projectId, id))),
      Effect.flatMap(([message]) =>
        message === undefined ? Effect.die(new Error(`Message ${id} is gone`)) : Effect.succeed(message)
      ),
      withOwnTime
    )

  /** Waits, up to a limit, for the end of the first call for a message, in whichever process. Returns the message. */
  const settled = (projectId: ProjectId, id: MessageId) =>
    Effect.repeat(current(projectId, id), { schedule: Schedule.spaced(Duration.millis(100)), while: isCalling })

  // Age of a message at which repeated requests stop waiting: the deadline of a call, and time to record its outcome.
  const replayWait = Duration.toMillis(Duration.sum(providerTimeout, Duration.seconds(2)))
  // If the clock of the process that created the message is ahead, `ageMillis` is too small. So the wait also ends when only
  // `leaseLeft` of the lease is left, by the database's clock.
  const leaseLeft = Duration.toMillis(calls.lease) - replayWait
  const isCalling = ({ ageMillis, deliveryStatus, waitMillis }: Message) =>
    deliveryStatus === "pending" && ageMillis < replayWait && waitMillis !== null && waitMillis > leaseLeft

  // Uninterruptible until the call has started, so that the call is made even if the caller disconnects during the commit.
  return Effect.fnUntraced(function* (command: Command, conversationId: ConversationId, text: string) {
    const { projectId } = command
    const context = yield* eventContext(projectId)
    const messageId = MessageId.make(yield* newId("msg"))
    const leaseEnd = later(sql, yield* now, Duration.toMillis(calls.lease))
    const { replayed, resourceId, returned } = yield* mutate<ConversationNotFound, Destination>(
      mutations,
      command,
      create(sql, context, { id: messageId, conversationId, text }, leaseEnd)
    )
    if (replayed || returned === null) {
      const id = MessageId.make(resourceId)
      return { message: yield* withMessageId(id, Effect.interruptible(settled(projectId, id))), replayed }
    }
    const state = current(projectId, messageId)
    if (returned.status === "revoked") return { message: yield* withMessageId(messageId, state), replayed }
    const call = calls.make({
      projectId,
      messageId,
      conversationId,
      campaignId: null,
      ...returned,
      config: Buffer.from(returned.config, "hex"),
      text,
      number: 1,
      inDoubt: false,
      traceparent: context.traceparent
    })
    const recorded = Effect.flatMap(call, Option.match({ onNone: () => state, onSome: Effect.succeed }))
    return { message: yield* withMessageId(messageId, recorded), replayed }
  }, Effect.uninterruptible)
})

export const makeGetReceipt = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const find = lookupBy<MessageReceipt & { readonly id: MessageId }>(
    sql,
    (key) => sql`
      SELECT messages.id, ${sql.literal(receiptColumns)} FROM ${key}
        LEFT JOIN messages ON messages.project_id = key.project_id AND messages.id = key.id
        LEFT JOIN channels ON channels.project_id = messages.project_id AND channels.id = messages.channel_id
      WHERE ${sql.literal(plannedOnce)}
      ORDER BY ordinal`
  )
  return Effect.fnUntraced(function* (projectId: ProjectId, conversationId: ConversationId, id: MessageId) {
    const found = yield* find({ projectId, id })
    if (found !== undefined && found.conversationId === conversationId) return receiptOf(found)
    const conversations = yield* statement(
      sql`SELECT FROM conversations WHERE project_id = ${projectId} AND id = ${conversationId}`
    )
    return conversations.length > 0 ? yield* new MessageNotFound() : yield* new ConversationNotFound()
  })
})

/** Returns the receipt of a message with its members in the order of the contract. jsonb does not keep this order. */
export const receiptOf = (message: MessageReceipt): MessageReceipt => ({
  ...Struct.pick(message, Struct.keys(MessageReceipt.fields)),
  attempts: message.attempts.map((attempt) => Struct.pick(attempt, Struct.keys(MessageAttempt.fields)))
})

export const makeListConversations = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const pages = yield* Pages
  return (projectId: ProjectId, { cursor, limit, ...filters }: PageQuery & ConversationFilters) =>
    pages.readById(
      { projectId, operation: "listConversations", filters: { ...filters } },
      { cursor, limit },
      (window) => statement(conversations(sql, projectId, filters, window))
    )
})

/** Lists conversations by an index that has the filters before the order (`migrations/0024_lists_of_references.ts`). */
const conversations = (
  sql: SqlClient.SqlClient,
  projectId: ProjectId,
  { clientId, sourceId }: ConversationFilters,
  window: Window
) => {
  const ofClient = clientId === undefined ? sql.literal("") : sql`AND client_id = (SELECT ${clientId}::text)`
  const ofSource =
    sourceId === undefined
      ? sql.literal("")
      : sql`
      AND channel_id = (SELECT id FROM channels WHERE project_id = ${projectId} AND source_id = ${sourceId}) AND id > ''`
  return sql<Conversation>`
    SELECT page.id, page.client_id AS "clientId", (
      SELECT source_id FROM channels WHERE channels.project_id = ${projectId} AND channels.id = page.channel_id
    ) AS "sourceId"
    FROM (
      SELECT id, client_id, channel_id FROM conversations
      WHERE project_id = ${projectId} ${ofClient} ${ofSource} ${pageConditionById(sql, window.after)}
      ORDER BY id ${pageLimit(sql, window)}
    ) page ORDER BY id`
}

/** Makes the operations that read sources. The list is newest first, and includes revoked sources. */
export const makeSources = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const pages = yield* Pages
  return {
    list: (projectId: ProjectId, query: PageQuery) =>
      Effect.map(
        pages.read({ projectId, operation: "listSources", filters: {} }, query, (window) =>
          statement(sources(sql, projectId, window))
        ),
        ({ items, nextCursor }) => ({ items: items.map(sourceOf), nextCursor })
      ),
    /** Returns the source on which the conversation was last seen. */
    ofConversation: Effect.fnUntraced(function* (projectId: ProjectId, id: ConversationId) {
      const [found] = yield* statement(ofConversation(sql, projectId, id))
      if (found === undefined) return yield* new ConversationNotFound()
      const { observedAt, ...row } = found
      return { conversationId: id, source: sourceOf(row), observedAt } satisfies ConversationSource
    })
  }
})

const sourceOf = ({ createdAt, revokedAt, ...row }: Row): Source => ({
  ...row,
  capabilities: { textReply: row.status === "active" },
  connectedAt: createdAt,
  revokedAt
})

interface Row extends Omit<Source, "capabilities" | "connectedAt"> {
  readonly createdAt: string
}

const columns = selectList({
  id: "sources.id",
  channelId: "sources.channel_id",
  providerType: "provider_type",
  displayName: "display_name",
  status: "status",
  createdAt: ["created_at", "timestamptz"],
  revokedAt: ["revoked_at", "timestamptz"]
})

const sources = (sql: SqlClient.SqlClient, projectId: ProjectId, window: Window) => sql<Row>`
  SELECT ${sql.literal(columns)} FROM sources
  WHERE project_id = ${projectId} ${pageCondition(sql, window.after)}
  ORDER BY created_at DESC, id DESC
  ${pageLimit(sql, window)}`

const observed = selectList({ observedAt: ["observed_at", "timestamptz"] })

const ofConversation = (sql: SqlClient.SqlClient, projectId: ProjectId, id: ConversationId) =>
  sql<Row & { readonly observedAt: string }>`
    SELECT ${sql.literal(`${columns}, ${observed}`)} FROM conversations
      JOIN sources ON sources.project_id = conversations.project_id AND sources.channel_id = conversations.channel_id
    WHERE conversations.project_id = ${projectId} AND conversations.id = ${id}`
