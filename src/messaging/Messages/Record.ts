/** SQL that creates and reads a message. */
import type { Statement } from "effect/sql"
import type { SqlClient as Sql } from "effect/sql/SqlClient"
import type { ChannelId, ConversationId, MessageId, ProjectId } from "../../api/schema/Ids.ts"
import type { MessageReceipt, ProviderType } from "../../api/messaging/Messaging.ts"
import { ConversationNotFound } from "../../api/Problems.ts"
import { selectList } from "../../sql/Columns.ts"
import { type Mutation, plain } from "../../commands/Command.ts"
import type { EventContext } from "../../outbox/Outbox.ts"
import { uncalled } from "./States.ts"

export interface Message extends MessageReceipt {
  /** Milliseconds until the lease of an attempt in flight ends, or until the next attempt; null if there is neither. */
  readonly waitMillis: number | null
  readonly ageMillis: number
}

export const receiptColumns = selectList({
  messageId: "messages.id",
  conversationId: "messages.conversation_id",
  sourceId: "channels.source_id",
  deliveryStatus: "messages.status",
  createdAt: ["messages.created_at", "timestamptz"],
  updatedAt: ["messages.updated_at", "timestamptz"],
  // Reasons are for operators alone.
  attempts: `CASE WHEN messages.attempt_log @? '$[*].reason' THEN (
    SELECT jsonb_agg(entry - 'reason' ORDER BY place) FROM jsonb_array_elements(messages.attempt_log) WITH ORDINALITY AS log (entry, place)
  ) ELSE messages.attempt_log END`
})

export const columns = (sql: Sql, now: Statement.Fragment) => sql`
  ${sql.literal(receiptColumns)},
  (extract(epoch FROM messages.available_at - ${now}) * 1000)::float8 AS "waitMillis",
  (extract(epoch FROM ${now} - messages.created_at) * 1000)::float8 AS "ageMillis"`

/** Formats a time as in the contract: RFC 3339 in UTC, with milliseconds. */
export const instant = (sql: Sql, time: Statement.Fragment) =>
  sql`to_char(${time} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`

/** SQL for the log entry of an attempt that starts. `number` is an SQL expression, and `at` a time as text. */
export const startedAttempt = (sql: Sql, number: string, at: Statement.Fragment) => sql`jsonb_build_object(
  'number', ${sql.literal(number)}, 'status', 'pending', 'startedAt', ${at}, 'finishedAt', NULL,
  'providerMessageId', NULL, 'errorCode', NULL, 'nextAttemptAt', NULL)`

/** SQL for the log of a message, changed so that no attempt follows the last one. */
export const endedLog = "jsonb_set(attempt_log, '{-1,nextAttemptAt}', 'null')"

/** Whether an attempt of a message may have been processed. */
export const inDoubt = `attempt_log @? '$[*] ? (@.status == "unknown")'`

const isUncalled = `$[*] ? (@.status == "retrying" && (${uncalled.map((code) => `@.errorCode == "${code}"`).join(" || ")}))`

export const uncalledAttempts = `jsonb_array_length(jsonb_path_query_array(attempt_log, '${isUncalled}'))`

/** The data of a conversation that the first attempt needs. `config` is encoded as hex. */
export interface Destination {
  readonly status: "active" | "revoked"
  readonly channelId: ChannelId
  readonly providerType: ProviderType
  readonly address: string
  readonly config: string
}

/** Creates a message with its first attempt, leased to the caller. On a revoked channel the message fails at once. */
export const create = (
  sql: Sql,
  { at, projectId, traceparent }: EventContext,
  message: { readonly id: MessageId; readonly conversationId: ConversationId; readonly text: string },
  leaseEnd: Statement.Fragment
): Mutation<ConversationNotFound> => ({
  at,
  decided: sql`
    conversation AS MATERIALIZED (
      SELECT conversations.id, conversations.address, channels.id AS channel_id, channels.provider_type,
        channels.provider_version,
        channels.status, channels.config, channels.status = 'active' AS active
      FROM command JOIN conversations USING (project_id)
        JOIN channels ON channels.project_id = conversations.project_id AND channels.id = conversations.channel_id
      WHERE conversations.id = ${message.conversationId} AND conversations.address <> ''
    ),
    decided AS MATERIALIZED (
      SELECT command.*, CASE WHEN conversation.id IS NULL THEN 'conversation_not_found' END AS failure,
        NULL::text[] AS faults, ${message.id}::text AS resource_id, true AS changed, NULL::int AS version
      FROM command LEFT JOIN conversation ON true
    )`,
  effect: sql`
    message AS (
      INSERT INTO messages (project_id, id, conversation_id, channel_id, provider_type, provider_version, address, text, status, attempts,
        attempting, attempt_log, available_at, traceparent, created_at, updated_at)
      SELECT ${projectId}::text, ${message.id}::text, id, channel_id, provider_type, provider_version, address, ${message.text}::text,
        CASE WHEN active THEN 'pending' ELSE 'failed' END, active::int, active,
        CASE WHEN active THEN jsonb_build_array(${startedAttempt(sql, "1", sql`${at.toISOString()}::text`)}) ELSE '[]' END,
        CASE WHEN active THEN ${leaseEnd} END,
        ${traceparent}::text, ${at}::timestamptz, ${at}::timestamptz
      FROM claim, conversation
    )`,
  returning: sql`(
    SELECT json_build_object('status', conversation.status, 'channelId', channel_id, 'providerType', provider_type,
      'address', address, 'config', encode(config, 'hex'))
    FROM conversation)`,
  problems: plain(ConversationNotFound)
})

export const find = (sql: Sql, now: Statement.Fragment, projectId: ProjectId, id: MessageId) => sql<Message>`
  SELECT ${columns(sql, now)} FROM messages
    JOIN channels ON channels.project_id = messages.project_id AND channels.id = messages.channel_id
  WHERE messages.project_id = ${projectId} AND messages.id = ${id}`
