/** Attempts to send a message: claimed, leased, and recorded. Every statement names the project first. */
import type { SqlClient } from "effect/sql"
import type { ChannelId, ConversationId, MessageId, ProjectId } from "../../api/Ids.ts"
import type { ProviderType } from "../../api/messaging/Messaging.ts"
import { begun, columns, type Message } from "./Record.ts"
import type { Result } from "./Schedule.ts"
import { after } from "./States.ts"

type Sql = SqlClient.SqlClient

/** An attempt that is to be made now: what it takes to call the provider. */
export interface Attempt {
  readonly projectId: ProjectId
  readonly messageId: MessageId
  readonly conversationId: ConversationId
  readonly channelId: ChannelId
  readonly providerType: ProviderType
  /** Sealed. */
  readonly config: Uint8Array
  readonly address: string
  readonly text: string
  /** The number of the attempt, and the fence of its lease. */
  readonly number: number
  /** Whether an earlier attempt may have been processed. */
  readonly inDoubt: boolean
  readonly traceparent: string
}

/** Records what became of an attempt, unless somebody else has by now: then no row. */
export const record = (sql: Sql, { messageId, number, projectId }: Attempt, result: Result) => {
  const move = after(result.on)
  const entry = {
    status: move.attempt,
    finishedAt: result.finishedAt.toISOString(),
    providerMessageId: result.providerMessageId,
    errorCode: result.errorCode,
    nextAttemptAt: result.nextAttemptAt?.toISOString() ?? null
  }
  return sql<Message>`
    UPDATE messages SET status = ${move.to}, attempting = false, available_at = ${result.nextAttemptAt}::timestamptz,
      updated_at = ${result.finishedAt}::timestamptz,
      attempt_log = jsonb_set(attempt_log, '{-1}', attempt_log -> -1 || ${JSON.stringify(entry)}::jsonb)
    FROM channels
    WHERE messages.project_id = ${projectId} AND messages.id = ${messageId}
      AND messages.attempting AND messages.attempts = ${number}::int AND messages.status = ANY(${[...move.from]}::text[])
      AND channels.project_id = messages.project_id AND channels.id = messages.channel_id
    RETURNING ${sql.literal(columns)}`
}

/** A claimed message: its next attempt, or one whose lease has ended and that nobody may make again. */
export interface Claim extends Attempt {
  readonly lost: boolean
}

/**
 * Claims what is due, of each project in turn, and leases it. What is lost is unknown from here on: the new lease must not
 * make it look as if it were under way. Where the channel is gone, there is nothing left to attempt: that is settled here, too.
 */
export const claim = (
  sql: Sql,
  { leaseEnd, limit, now }: { readonly now: Date; readonly leaseEnd: Date; readonly limit: number }
) => sql<Claim>`
  WITH RECURSIVE queue AS (
    (SELECT project_id FROM messages WHERE available_at IS NOT NULL ORDER BY project_id LIMIT 1)
    UNION ALL
    SELECT next.project_id FROM queue, LATERAL (
      SELECT project_id FROM messages WHERE available_at IS NOT NULL AND project_id > queue.project_id
      ORDER BY project_id LIMIT 1
    ) next
  ),
  due AS MATERIALIZED (
    SELECT message.*, row_number() OVER (PARTITION BY message.project_id ORDER BY available_at, id) AS rank
    FROM queue, LATERAL (
      SELECT project_id, id, channel_id, provider_type, attempting, available_at,
        attempt_log @? '$[*] ? (@.status == "unknown")' AS in_doubt
      FROM messages
      WHERE project_id = queue.project_id AND available_at <= ${now}::timestamptz
      ORDER BY available_at, id LIMIT ${limit}::int
      FOR NO KEY UPDATE SKIP LOCKED
    ) message
  ),
  chosen AS (
    SELECT due.project_id, due.id, due.attempting AS lost, due.in_doubt, channels.config,
      due.attempting OR channels.status = 'active' AND channels.provider_type = due.provider_type AS reachable
    FROM due JOIN channels ON channels.project_id = due.project_id AND channels.id = due.channel_id
    ORDER BY rank, available_at LIMIT ${limit}::int
  ),
  given_up AS (
    UPDATE messages SET
      status = CASE WHEN in_doubt THEN ${after("channel_lost_in_doubt").to} ELSE ${after("channel_lost").to} END,
      available_at = NULL, updated_at = ${now}::timestamptz
    FROM chosen
    WHERE NOT reachable AND messages.project_id = chosen.project_id AND messages.id = chosen.id
  ),
  claimed AS (
    UPDATE messages SET attempting = true, available_at = ${leaseEnd}::timestamptz,
      status = CASE WHEN lost THEN ${after("unclear").to} ELSE messages.status END,
      attempts = attempts + (NOT lost)::int,
      attempt_log = CASE WHEN lost THEN attempt_log ELSE attempt_log || ${begun(sql, "attempts + 1", now)} END
    FROM chosen
    WHERE reachable AND messages.project_id = chosen.project_id AND messages.id = chosen.id
    RETURNING messages.*, lost, in_doubt, config
  )
  SELECT project_id AS "projectId", id AS "messageId", conversation_id AS "conversationId", channel_id AS "channelId",
    provider_type AS "providerType", config, address, text, attempts AS number, in_doubt AS "inDoubt", traceparent, lost
  FROM claimed`
