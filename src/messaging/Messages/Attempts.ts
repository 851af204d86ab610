/** Attempts to send a message: claimed, leased, and recorded. Every statement names the project first. */
import type { SqlClient, Statement } from "effect/sql"
import type { ChannelId, ConversationId, MessageId, ProjectId } from "../../api/Ids.ts"
import type { ProviderType } from "../../api/messaging/Messaging.ts"
import type { Limits } from "../../platform/background/Slots.ts"
import { later } from "../../platform/DatabaseClock.ts"
import { limitTables } from "../ChannelLimits.ts"
import { begun, columns, type Message } from "./Record.ts"
import type { Result } from "./Schedule.ts"
import { after } from "./States.ts"

type Sql = SqlClient.SqlClient

/** An attempt that is to be made now, with all that its call needs. */
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

/**
 * Records what became of an attempt, unless another process has by now: then no row. All times are the database's, so that
 * the next attempt is due when the receipt says.
 */
export const record = (
  sql: Sql,
  now: Statement.Fragment,
  { messageId, number, projectId }: Attempt,
  { delayMillis, errorCode, on, providerMessageId }: Result
) => {
  const move = after(on)
  const entry = JSON.stringify({ status: move.attempt, providerMessageId, errorCode })
  return sql<Message>`
    UPDATE messages SET status = ${move.to}, attempting = false, worker_id = NULL, available_at = next_at,
      updated_at = finished_at,
      attempt_log = jsonb_set(attempt_log, '{-1}', attempt_log -> -1 || ${entry}::jsonb || jsonb_build_object(
        'finishedAt', ${instant(sql, sql`finished_at`)}, 'nextAttemptAt', ${instant(sql, sql`next_at`)}))
    FROM channels, (SELECT finished_at, ${later(sql, sql`finished_at`, delayMillis)} AS next_at
      FROM (SELECT date_trunc('milliseconds', ${now}) AS finished_at) AS clock) AS time
    WHERE messages.project_id = ${projectId} AND messages.id = ${messageId}
      AND messages.attempting AND messages.attempts = ${number}::int AND messages.status = ANY(${[...move.from]}::text[])
      AND channels.project_id = messages.project_id AND channels.id = messages.channel_id
    RETURNING ${columns(sql, now)}`
}

/** A time as the contract writes it. */
const instant = (sql: Sql, time: Statement.Fragment) =>
  sql`to_char(${time} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`

/** A claimed message: its next attempt, or (`lost`) an attempt whose lease has ended, to be recorded as unknown. */
export interface Claim extends Attempt {
  readonly lost: boolean
}

export interface Terms {
  readonly now: Statement.Fragment
  readonly leaseMillis: number
  /** The worker that leases; null: the leases end by their time alone. */
  readonly workerId: bigint | null
  readonly limits: Limits
  /** When the attempts start, by the clock of the process: only shown. */
  readonly at: Date
}

/**
 * Claims due messages and leases them, as far as the limits admit: of each project in turn, and of each of its channels in
 * turn. A lost attempt is unknown from here on, as its new lease must not make it look as if it were under way; it needs no
 * permit of its channel. A message whose channel is gone is given up here.
 *
 * Lock order: messages alone, each row with SKIP LOCKED. The recursion finds the projects with open messages by skipping
 * through `messages_due`; the same index brings the due ones of a project in order.
 */
export const claim = (sql: Sql, terms: Terms) => sql<Claim>`
  WITH RECURSIVE ${limitTables(sql, terms.limits)},
  ${due(sql, terms)},
  ${chosen(sql, terms)},
  given_up AS (
    UPDATE messages SET
      status = CASE WHEN in_doubt THEN ${after("channel_lost_in_doubt").to} ELSE ${after("channel_lost").to} END,
      available_at = NULL, updated_at = ${terms.now}
    FROM chosen
    WHERE NOT reachable AND messages.project_id = chosen.project_id AND messages.id = chosen.id
  ),
  claimed AS (
    UPDATE messages SET attempting = true, worker_id = ${workerOf(terms)}::bigint,
      available_at = ${later(sql, terms.now, terms.leaseMillis)},
      status = CASE WHEN lost THEN ${after("unclear").to} ELSE messages.status END,
      attempts = attempts + (NOT lost)::int,
      attempt_log = CASE WHEN lost THEN attempt_log ELSE attempt_log || ${begun(sql, "attempts + 1", terms.at)} END
    FROM chosen
    WHERE reachable AND messages.project_id = chosen.project_id AND messages.id = chosen.id
    RETURNING messages.*, lost, in_doubt, config
  )
  SELECT project_id AS "projectId", id AS "messageId", conversation_id AS "conversationId", channel_id AS "channelId",
    provider_type AS "providerType", config, address, text, attempts AS number, in_doubt AS "inDoubt", traceparent, lost
  FROM claimed`

const workerOf = ({ workerId }: Terms) => (workerId === null ? null : String(workerId))

/** Due messages of channels with a permit, numbered within their channel. */
const due = (sql: Sql, { limits, now }: Terms) => sql`
  queue AS (
    (SELECT project_id FROM messages WHERE available_at IS NOT NULL ORDER BY project_id LIMIT 1)
    UNION ALL
    SELECT next.project_id FROM queue, LATERAL (
      SELECT project_id FROM messages WHERE available_at IS NOT NULL AND project_id > queue.project_id
      ORDER BY project_id LIMIT 1
    ) next
  ),
  due AS MATERIALIZED (
    SELECT message.*,
      row_number() OVER (PARTITION BY message.project_id, channel_id ORDER BY available_at, id) AS channel_rank
    FROM queue, LATERAL (
      SELECT messages.project_id, id, channel_id, provider_type, attempting, available_at,
        attempt_log @? '$[*] ? (@.status == "unknown")' AS in_doubt
      FROM messages
      WHERE project_id = queue.project_id AND available_at <= ${now} AND (attempting OR NOT EXISTS (
        SELECT FROM channel_limit
        WHERE project_id = messages.project_id AND channel_id = messages.channel_id AND free = 0
      ))
      ORDER BY available_at, id LIMIT ${limits.free}::int
      FOR NO KEY UPDATE SKIP LOCKED
    ) message
  )`

/** As many of them as the limits admit; the first of each channel goes before the second of any. */
const chosen = (sql: Sql, { limits }: Terms) => sql`
  admitted AS (
    SELECT due.*, row_number() OVER (PARTITION BY project_id ORDER BY channel_rank, available_at, id) AS rank
    FROM due LEFT JOIN channel_limit USING (project_id, channel_id)
    WHERE attempting OR channel_rank <= coalesce(free, ${limits.newKey}::int)
  ),
  chosen AS (
    SELECT admitted.project_id, admitted.id, attempting AS lost, in_doubt, channels.config,
      attempting OR channels.status = 'active' AND channels.provider_type = admitted.provider_type AS reachable
    FROM admitted JOIN channels ON channels.project_id = admitted.project_id AND channels.id = admitted.channel_id
      LEFT JOIN project_limit ON project_limit.project_id = admitted.project_id
    WHERE attempting OR rank <= coalesce(free, ${limits.newTenant}::int)
    ORDER BY rank, available_at LIMIT ${limits.free}::int
  )`

/** Leases ended at once in one statement. */
const takeoverBatch = 500

/** Ends the leases of workers that have died, so that the next claim finds their attempts lost. */
export const endLeasesOfDead = (sql: Sql, now: Statement.Fragment, isDead: Statement.Fragment) => sql`
  UPDATE messages SET available_at = ${now}, worker_id = NULL
  FROM (
    SELECT project_id, id FROM messages WHERE attempting AND worker_id IS NOT NULL AND ${isDead}
    LIMIT ${takeoverBatch}::int FOR NO KEY UPDATE SKIP LOCKED
  ) lost
  WHERE messages.project_id = lost.project_id AND messages.id = lost.id`
