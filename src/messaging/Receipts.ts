/** Receipts of messages. A caller can read the outcome of a send without repeating the request (contract §8). */
import { Effect, Struct } from "effect"
import { SqlClient } from "effect/sql"
import type { ConversationId, MessageId, ProjectId } from "../api/schema/Ids.ts"
import { MessageAttempt, MessageReceipt } from "../api/messaging/Messaging.ts"
import { ConversationNotFound, MessageNotFound } from "../api/Problems.ts"
import { statement } from "../sql/Database.ts"
import { lookupBy, plannedOnce } from "../sql/Lookups.ts"
import { receiptColumns } from "./Messages/Record.ts"

export const makeGetReceipt = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const find = lookupBy<MessageReceipt & { readonly id: MessageId }>(
    sql,
    (key) => sql`
      SELECT messages.id, ${sql.literal(receiptColumns)} FROM ${key}
        -- Only the primary key has this order. With two equalities instead, a plan may use the index by age.
        LEFT JOIN LATERAL (
          SELECT * FROM messages WHERE project_id = key.project_id AND id >= key.id ORDER BY id LIMIT 1
        ) messages ON messages.id = key.id
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
