/** Receipts of messages for callers, who see the outcome of a send without repeating the request (contract §8). */
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { ConversationId, MessageId, ProjectId } from "../api/schema/Ids.ts"
import type { MessageReceipt } from "../api/messaging/Messaging.ts"
import { type ConversationNotFound, MessageNotFound, type ServiceUnavailable } from "../api/Problems.ts"
import { selectList } from "../platform/database/Columns.ts"
import { statement } from "../platform/database/Database.ts"
import { lookupBy, plannedOnce } from "../platform/database/Lookups.ts"
import { noSuchConversation } from "./Sources.ts"

export class Receipts extends Context.Service<
  Receipts,
  {
    readonly get: (
      projectId: ProjectId,
      conversationId: ConversationId,
      id: MessageId
    ) => Effect.Effect<MessageReceipt, ConversationNotFound | MessageNotFound | ServiceUnavailable>
  }
>()("developer-api/messaging/Receipts") {
  static readonly layer = Layer.effect(
    Receipts,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const find = lookupBy<Row>(
        sql,
        (key) => sql`
          SELECT ${sql.literal(columns)}, messages.attempt_log AS attempts FROM ${key}
            -- Only the primary key has this order. With two equalities instead, a plan may use the index by age.
            LEFT JOIN LATERAL (
              SELECT * FROM messages WHERE project_id = key.project_id AND id >= key.id ORDER BY id LIMIT 1
            ) messages ON messages.id = key.id
            LEFT JOIN channels ON channels.project_id = messages.project_id AND channels.id = messages.channel_id
          WHERE ${sql.literal(plannedOnce)}
          ORDER BY ordinal`
      )
      const conversationExists = (projectId: ProjectId, id: ConversationId) =>
        Effect.map(
          statement(sql`SELECT FROM conversations WHERE project_id = ${projectId} AND id = ${id}`),
          (rows) => rows.length > 0
        )
      return {
        get: Effect.fnUntraced(function* (projectId, conversationId, id) {
          const found = yield* find({ projectId, id })
          if (found !== undefined && found.conversationId === conversationId) return receiptOf(found)
          return (yield* conversationExists(projectId, conversationId))
            ? yield* new MessageNotFound({
                detail: "The conversation in the path has no message with the id in the path."
              })
            : yield* noSuchConversation()
        })
      }
    })
  )
}

interface Row extends MessageReceipt {
  readonly id: MessageId
}

const columns = selectList({
  id: "messages.id",
  messageId: "messages.id",
  conversationId: "messages.conversation_id",
  sourceId: "channels.source_id",
  deliveryStatus: "messages.status",
  createdAt: ["messages.created_at", "timestamptz"],
  updatedAt: ["messages.updated_at", "timestamptz"]
})

/** Returns the receipt with its members in the order of the contract, which jsonb does not keep. */
export const receiptOf = ({
  attempts,
  conversationId,
  createdAt,
  deliveryStatus,
  messageId,
  sourceId,
  updatedAt
}: MessageReceipt): MessageReceipt => ({
  messageId,
  conversationId,
  sourceId,
  deliveryStatus,
  createdAt,
  updatedAt,
  attempts: attempts.map(({ errorCode, finishedAt, nextAttemptAt, number, providerMessageId, startedAt, status }) => ({
    number,
    status,
    startedAt,
    finishedAt,
    providerMessageId,
    errorCode,
    nextAttemptAt
  }))
})
