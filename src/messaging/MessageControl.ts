/** The messages that operators see, and the commands with which they list, open and settle them (contract §13). */
import { DateTime, Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { CampaignId, ConversationId, MessageId, ProjectId } from "../api/schema/Ids.ts"
import { recipientStates } from "../api/campaigns/Campaign.ts"
import { campaigns } from "../api/campaigns/Commands.ts"
import { targetOf } from "../api/schema/States.ts"
import { type MessageAttempt, type MessageStatus, messageStatuses } from "../api/messaging/Messaging.ts"
import { recordAction } from "../operating/Audit.ts"
import { actByStatement } from "../operating/AuditedActions.ts"
import { noSuchRecord, Refused, requireProject, servedProject } from "../operating/Refusals.ts"
import {
  complete,
  type Found,
  foundOf,
  isCreatedIn,
  type RangeByAge,
  type Scanned,
  scanLimit,
  makeShow
} from "../operating/Lists.ts"
import { after, attemptAfter, before, endedLog, type Move } from "./Message.ts"
import { selectList } from "../sql/Columns.ts"
import { type LookupStatement, plannedOnce } from "../sql/Lookups.ts"

interface Listed {
  readonly id: MessageId
  readonly conversationId: ConversationId | null
  readonly deliveryStatus: MessageStatus
  readonly attempts: number
  readonly client: { readonly id: string; readonly name: string } | null
  /** The display name of the channel. */
  readonly channel: string
  readonly createdAt: string
}

const columns = selectList({
  id: "found.id",
  conversationId: "found.conversation_id",
  deliveryStatus: "found.status",
  attempts: "found.attempts",
  createdAt: ["found.created_at", "timestamptz"],
  client: `(
    SELECT json_build_object('id', id, 'name', display_name) FROM clients
    WHERE clients.project_id = found.project_id AND clients.id = CASE WHEN conversation_id IS NULL THEN (
      SELECT client_id FROM campaign_recipients AS recipient
      WHERE recipient.project_id = found.project_id AND recipient.audience_id = found.audience_id
        AND recipient.position = found.position
    ) ELSE (
      SELECT client_id FROM conversations
      WHERE conversations.project_id = found.project_id AND conversations.id = found.conversation_id
    ) END
  )`,
  channel: `(
    SELECT display_name FROM channels WHERE channels.project_id = found.project_id AND channels.id = found.channel_id
  )`
})

const final = recipientStates.final.map((state) => `'${state}'`).join(", ")

/**
 * A SQL condition: the outcome of a message is unknown and no attempt follows, so an operator must settle it. For a campaign's
 * message, attempts may follow while its recipient is open and the campaign is not cancelled. The final states are named, so that the
 * recipient is looked up by its key: PostgreSQL would read the index of open recipients from its start.
 */
export const needsDecision = `messages.status = 'unknown' AND messages.available_at IS NULL
  AND (messages.campaign_id IS NULL OR NOT EXISTS (
    SELECT FROM campaign_recipients AS recipient
      JOIN campaigns ON campaigns.project_id = recipient.project_id AND campaigns.id = messages.campaign_id
    WHERE campaigns.status <> '${targetOf(campaigns, "cancel")}' AND recipient.project_id = messages.project_id
      AND recipient.audience_id = messages.audience_id AND recipient.position = messages.position
      AND recipient.status NOT IN (${final})
  ))`

export const messageFilters = [...messageStatuses, "needs decision"] as const
type MessageFilter = (typeof messageFilters)[number]

interface Filter {
  readonly status: MessageFilter | null
  /** The error code of the last attempt. */
  readonly error: string | null
  readonly campaignId: string | null
  readonly channelId: string | null
}

interface Message extends Listed {
  readonly lastErrorCode: string | null
}

/**
 * Finds a page of messages, newest first. With a filter, examines at most `scanLimit` messages of the range. For `unknown` and `needs
 * decision`, these are only messages of unknown outcome. `created_at > '-infinity'` is the condition of the index `messages_listed`.
 */
export const find = (
  sql: SqlClient.SqlClient,
  projectId: ProjectId,
  { campaignId, channelId, error, status }: Filter,
  range: RangeByAge
): Effect.Effect<Found<Message>, SqlError.SqlError> => {
  const { limit } = range
  const isUnknown = status === "unknown" || status === "needs decision"
  const isFiltered = [campaignId, channelId, error, status].some((chosen) => chosen !== null)
  return sql<(Message | { readonly id: null }) & Scanned>`
    WITH scanned AS MATERIALIZED (
      SELECT project_id, id, conversation_id, campaign_id, audience_id, position, channel_id, status, attempts, available_at, created_at,
        attempt_log -> -1 ->> 'errorCode' AS error_code
      FROM messages WHERE project_id = ${projectId} AND ${isCreatedIn(sql, "messages", projectId, range)}
        AND ${sql.literal(isUnknown ? "status = 'unknown'" : "created_at > '-infinity'")}
      ORDER BY created_at DESC, id DESC LIMIT ${isFiltered ? scanLimit : limit + 1}::int
    ),
    found AS (
      SELECT * FROM scanned AS messages
      WHERE ${status === "needs decision" ? sql.literal(needsDecision) : sql`(${status}::text IS NULL OR status = ${status})`}
        AND (${error}::text IS NULL OR error_code = ${error}) AND (${campaignId}::text IS NULL OR campaign_id = ${campaignId})
        AND (${channelId}::text IS NULL OR channel_id = ${channelId})
      ORDER BY created_at DESC, id DESC LIMIT ${limit + 1}::int
    ),
    bound AS (
      SELECT count(*)::int AS scanned, (SELECT id FROM scanned ORDER BY created_at, id LIMIT 1) AS last FROM scanned
    )
    SELECT ${sql.literal(columns)}, found.error_code AS "lastErrorCode", bound.last, bound.scanned FROM bound LEFT JOIN found ON true
    ORDER BY found.created_at DESC, found.id DESC`.pipe(Effect.map((rows) => foundOf<Message>(rows, limit)))
}

interface Details extends Listed {
  /** Null for a message of a conversation. */
  readonly campaignId: CampaignId | null
  readonly updatedAt: string
  readonly traceparent: string
  /** With what the provider answered instead of accepting, for operators. */
  readonly log: ReadonlyArray<MessageAttempt & { readonly reason?: string }>
}

const moreColumns = selectList(
  {
    campaignId: "campaign_id",
    updatedAt: ["updated_at", "timestamptz"],
    traceparent: "traceparent",
    log: "attempt_log"
  },
  "found"
)

export const details =
  (sql: SqlClient.SqlClient): LookupStatement<Details> =>
  (key) =>
    sql`
    SELECT ${sql.literal(`${columns}, ${moreColumns}`)} FROM ${key}
      LEFT JOIN messages AS found ON found.project_id = key.project_id AND found.id = key.id
    WHERE ${sql.literal(plannedOnce)}
    ORDER BY ordinal`

const exists = (sql: SqlClient.SqlClient, projectId: ProjectId, id: string) =>
  Effect.map(sql`SELECT FROM messages WHERE project_id = ${projectId} AND id = ${id}`, (rows) => rows.length > 0)

export const listMessages = Effect.fn("listMessages")(function* (projectId: ProjectId, filtered: RangeByAge & Filter) {
  const { after } = filtered
  const sql = yield* SqlClient.SqlClient
  yield* requireProject(sql, projectId)
  if (after !== null && !(yield* exists(sql, projectId, after))) return yield* noSuchRecord(projectId, "message", after)
  return yield* complete((range) => find(sql, projectId, filtered, range), filtered)
})

export const findMessage = makeShow("findMessage", "message", details)

/** Reads the address and the text of a message. The same statement writes the audit entry. Both are empty once the client is erased. */
export const openMessage = (projectId: ProjectId, id: string) =>
  actByStatement(
    { projectId, kind: "message", id },
    (sql, actor) => sql<{ readonly address: string; readonly text: string }>`
      WITH ${servedProject(sql, projectId)},
      opened AS (
        SELECT messages.project_id, address, text FROM project JOIN messages USING (project_id) WHERE messages.id = ${id}
      ),
      ${recordAction(sql, { actor, action: "message.show", target: id }, "opened")}
      SELECT address, text FROM opened`
  )

/** Settles a message of unknown outcome. It is no error if the message already has the outcome `as`. */
export const settleMessage = Effect.fn("settleMessage")(function* (
  projectId: ProjectId,
  messageId: string,
  as: "sent" | "failed"
) {
  yield* requireProject(yield* SqlClient.SqlClient, projectId)
  const at = yield* DateTime.nowAsDate
  const found = yield* actByStatement({ projectId, kind: "message", id: messageId }, (sql, actor) =>
    settle(sql, projectId, messageId, `settled_${as}`, at, actor)
  )
  if (!found.settled && found.status !== as) {
    const message = `Message "${messageId}" is ${found.status}: only one whose outcome is unknown can be settled`
    return yield* new Refused({ message })
  }
})

type Sql = SqlClient.SqlClient

/**
 * Settles a message of unknown outcome and, if it belongs to a campaign, its recipient. An attempt in flight can no longer
 * record its outcome. Locks the recipient, then the message, then the counts of the audience. `campaigns/Runner/Release.ts`
 * locks in the same order.
 */
export const settle = (
  sql: Sql,
  projectId: ProjectId,
  id: string,
  move: Extract<Move, `settled_${string}`>,
  at: Date,
  actor: string
) => {
  const to = after(move)
  const entry = { status: attemptAfter[move], finishedAt: at.toISOString() }
  return sql<{ readonly status: MessageStatus; readonly settled: boolean }>`
    WITH recipient AS MATERIALIZED (
      SELECT recipient.* FROM messages JOIN campaign_recipients AS recipient USING (project_id, audience_id, position)
      WHERE messages.project_id = ${projectId} AND messages.id = ${id} AND recipient.message_id = messages.id
      FOR NO KEY UPDATE OF recipient
    ),
    target AS MATERIALIZED (
      SELECT status FROM messages
      WHERE project_id = ${projectId} AND id = ${id} AND (SELECT count(*) FROM recipient) >= 0 FOR NO KEY UPDATE
    ),
    settled AS (
      UPDATE messages SET status = ${to}, attempting = false, worker_id = NULL, available_at = NULL,
        updated_at = greatest(messages.updated_at, ${at}::timestamptz),
        attempt_log = CASE WHEN attempting
          THEN jsonb_set(attempt_log, '{-1}', attempt_log -> -1 || ${JSON.stringify(entry)}::jsonb)
          ELSE ${sql.literal(endedLog)} END
      FROM target
      WHERE messages.project_id = ${projectId} AND messages.id = ${id} AND target.status = ANY(${[...before(move)]}::text[])
      RETURNING messages.project_id, messages.audience_id, messages.attempt_log -> -1 ->> 'errorCode' AS error
    ),
    reached AS (
      UPDATE campaign_recipients SET status = ${to}, available_at = NULL, error_code = settled.error FROM settled, recipient
      WHERE campaign_recipients.project_id = recipient.project_id
        AND campaign_recipients.audience_id = recipient.audience_id
        AND campaign_recipients.position = recipient.position
    ),
    -- The audience of a deleted campaign is kept for as long as this message.
    kept AS (
      UPDATE audiences SET abandoned_at = ${at} FROM settled
      WHERE audiences.project_id = settled.project_id AND audiences.id = settled.audience_id AND abandoned_at IS NOT NULL
    ),
    ${recordAction(sql, { actor, action: "message.settle", target: id, detail: { as: to } }, "settled")}
    SELECT status, EXISTS (SELECT FROM settled) AS settled FROM target`
}
