/**
 * SQL that leases attempts to send messages, within the limits of their channels. The last part is for campaigns: to release a recipient
 * means to lease an attempt of its message. Between two attempts, such a message has no `available_at`, and waits until its recipient is
 * released again.
 */
import { Duration } from "effect"
import type { Statement } from "effect/sql"
import type { SqlClient as Sql } from "effect/sql/SqlClient"
import type { CampaignId, ChannelId, ConversationId, MessageId, ProjectId } from "../api/schema/Ids.ts"
import { instant, later } from "../sql/Times.ts"
import {
  after,
  type Attempt,
  endedLog,
  givenUp,
  inDoubt,
  isWaiting,
  keptLog,
  longestWait,
  startedAttempt,
  uncalledAttempts
} from "./Message.ts"
import type { Limits } from "./providers/ChannelLimits.ts"
import { idempotentTypes } from "./providers/Connectors.ts"
import { isAwake } from "../platform/MoveState.ts"

/** A message with a leased attempt, as a claim or a release returns it. */
export interface Claim extends Attempt {
  readonly projectId: ProjectId
  readonly messageId: MessageId
  /** Null for a message of a campaign. */
  readonly conversationId: ConversationId | null
  readonly campaignId: CampaignId | null
  readonly channelId: ChannelId
  /** The sealed config of the channel. */
  readonly config: Uint8Array
  readonly address: string
  readonly text: string
  readonly traceparent: string
  /** Whether an earlier lease of the attempt has ended without a result. The attempt is not made again, but recorded as unknown. */
  readonly lost: boolean
  /** Milliseconds until the attempt is due. */
  readonly delayMillis: number
}

export interface LeaseTerms {
  readonly now: Statement.Fragment
  /** Milliseconds from the time at which an attempt is due to the end of its lease. */
  readonly leaseMillis: number
  /** The worker that holds the lease. If null, the lease ends only by time. */
  readonly workerId: bigint | null
  readonly limits: Limits
}

/** CTEs with the limits: the channels whose number of free permits is not that of a new channel, and the permits that projects hold. */
export const limitTables = (sql: Sql, { channels, projects }: Limits): Statement.Fragment => sql`
  channel_limit (project_id, channel_id, free) AS MATERIALIZED (
    SELECT * FROM unnest(${channels.map(({ projectId }) => projectId)}::text[],
      ${channels.map(({ channelId }) => channelId)}::text[], ${channels.map(({ free }) => free)}::int[])
  ),
  project_share (project_id, held) AS MATERIALIZED (
    SELECT * FROM unnest(${projects.map(({ projectId }) => projectId)}::text[], ${projects.map(({ held }) => held)}::int[])
  )`

/**
 * SQL by which rows are ordered to share permits fairly: the project with the fewest attempts in flight comes first. A single
 * project may take all permits. If another project waits, it gets each freed permit until both hold the same number. `rank` is
 * the position of a row within its project.
 */
export const shareOf = (sql: Sql, rank: string): Statement.Fragment =>
  sql.literal(`${rank} + coalesce(project_share.held, 0)`)

/**
 * Claims due messages and leases their attempts, within the limits. Projects share the free permits fairly, and so do the channels
 * of a project. An attempt is lost if its lease has ended without a result. A lost attempt is leased again only to be recorded, so
 * it needs no free permit of its channel. Its message becomes `unknown`, so that callers do not wait for a call. A message without
 * a lost attempt is given up if it has waited for `longestWait`, if the client of its conversation was erased, or if its channel
 * was revoked or has changed its provider. A message in doubt is also given up if the provider has another address
 * (`provider_version`).
 *
 * Locks only messages, each row with SKIP LOCKED. The recursion finds the channels that have messages with an `available_at`, by
 * skipping through the index `messages_by_channel`. The same index returns the due messages of a channel in order.
 */
export const claim = (sql: Sql, terms: LeaseTerms) => sql<Claim>`
  WITH RECURSIVE ${limitTables(sql, terms.limits)},
  ${due(sql, terms)},
  ${chosen(sql, terms)},
  given_up AS (
    UPDATE messages SET status = ${givenUp(sql, "in_doubt")}, available_at = NULL, updated_at = ${terms.now},
      attempt_log = ${sql.literal(endedLog)}
    FROM chosen
    WHERE NOT reachable AND messages.project_id = chosen.project_id AND messages.id = chosen.id
  ),
  claimed AS (
    UPDATE messages SET attempting = true, worker_id = ${workerOf(terms)}::bigint,
      available_at = ${later(sql, terms.now, terms.leaseMillis)}, provider_version = chosen.provider_version,
      status = CASE WHEN lost THEN ${after("unclear")} ELSE messages.status END,
      attempts = attempts + (NOT lost)::int,
      attempt_log = CASE WHEN lost THEN attempt_log
        ELSE ${sql.literal(keptLog("attempt_log"))} || ${startedAttempt(sql, "attempts + 1", instant(sql, terms.now))} END
    FROM chosen
    WHERE reachable AND messages.project_id = chosen.project_id AND messages.id = chosen.id
    RETURNING messages.*, lost, in_doubt, config
  )
  SELECT project_id AS "projectId", id AS "messageId", conversation_id AS "conversationId",
    campaign_id AS "campaignId", channel_id AS "channelId", provider_type AS "providerType", config, address, text,
    attempts AS number, in_doubt AS "inDoubt", traceparent, lost, 0 AS "delayMillis",
    ${sql.literal(uncalledAttempts)} AS uncalled,
    (extract(epoch FROM ${terms.now} - created_at) * 1000)::float8 AS "ageMillis"
  FROM claimed`

const workerOf = ({ workerId }: LeaseTerms) => (workerId === null ? null : String(workerId))

/** Returns SQL for the time `longestWait` ago. A message whose next attempt was due before this time has waited for too long. */
const oldestDue = (sql: Sql, now: Statement.Fragment) => later(sql, now, -Duration.toMillis(longestWait))

/**
 * Lost attempts; due messages, at most as many as their channel has free permits; and messages that have waited for too long.
 * `channel_rank` numbers them within their channel.
 */
const due = (sql: Sql, { limits, now }: LeaseTerms) => {
  const oldest = oldestDue(sql, now)
  return sql`
  queue AS (
    (
      SELECT project_id, channel_id FROM messages WHERE available_at IS NOT NULL
      ORDER BY project_id, channel_id LIMIT 1
    )
    UNION ALL
    SELECT next.* FROM queue, LATERAL (
      SELECT project_id, channel_id FROM messages
      WHERE available_at IS NOT NULL AND (project_id, channel_id) > (queue.project_id, queue.channel_id)
      ORDER BY project_id, channel_id LIMIT 1
    ) next
  ),
  due AS MATERIALIZED (
    SELECT message.*, wanted.is_lost, wanted.is_late,
      row_number() OVER (PARTITION BY message.project_id, message.channel_id ORDER BY available_at, id) AS channel_rank
    FROM queue LEFT JOIN channel_limit USING (project_id, channel_id)
      CROSS JOIN LATERAL (
        VALUES (true, false, ${limits.free}::int, '-infinity', ${now}),
          (false, false, coalesce(free, ${limits.newChannel}::int), ${oldest}, ${now}),
          (false, true, ${limits.free}::int, '-infinity', ${oldest})
      ) AS wanted (is_lost, is_late, most, after, until)
      CROSS JOIN LATERAL (
        SELECT messages.project_id, id, conversation_id, channel_id, provider_type, provider_version, address, available_at,
          ${sql.literal(inDoubt)} AS in_doubt
        FROM messages
        WHERE project_id = queue.project_id AND channel_id = queue.channel_id AND attempting = is_lost
          AND available_at > wanted.after AND available_at <= wanted.until AND ${isAwake(sql, "queue.project_id")}
        ORDER BY available_at, id LIMIT wanted.most
        FOR NO KEY UPDATE SKIP LOCKED
      ) message
  )`
}

/**
 * The messages that fit the limits. Projects with fewer attempts in flight come first. Within a project, the first message of
 * each channel comes before the second message of any channel.
 */
const chosen = (sql: Sql, { limits }: LeaseTerms) => sql`
  ranked AS (
    SELECT due.*, row_number() OVER (PARTITION BY project_id ORDER BY channel_rank, available_at, id) AS rank FROM due
  ),
  chosen AS (
    SELECT ranked.project_id, ranked.id, is_lost AS lost, in_doubt, channels.config,
      CASE WHEN is_lost THEN ranked.provider_version ELSE channels.provider_version END AS provider_version,
      is_lost OR NOT is_late AND channels.status = 'active' AND channels.provider_type = ranked.provider_type
        AND (NOT in_doubt OR channels.provider_version = ranked.provider_version)
        AND ranked.address <> '' AND (
          SELECT address FROM conversations WHERE project_id = ranked.project_id AND conversations.id = conversation_id
        ) IS DISTINCT FROM '' AS reachable
    FROM ranked JOIN channels ON channels.project_id = ranked.project_id AND channels.id = ranked.channel_id
      LEFT JOIN project_share ON project_share.project_id = ranked.project_id
    ORDER BY ${shareOf(sql, "rank")}, available_at LIMIT ${limits.free}::int
  )`

/** Maximum number of leases that one statement ends. */
const takeoverBatch = 500

/** Ends the leases of dead workers. The next claim takes over their attempts (`lost`). */
export const endLeasesOfDead = (sql: Sql, now: Statement.Fragment, isDead: Statement.Fragment) => sql`
  UPDATE messages SET available_at = ${now}, worker_id = NULL
  FROM (
    SELECT project_id, id FROM messages WHERE attempting AND worker_id IS NOT NULL AND ${isAwake(sql, "project_id")} AND ${isDead}
    LIMIT ${takeoverBatch}::int FOR NO KEY UPDATE SKIP LOCKED
  ) lost
  WHERE messages.project_id = lost.project_id AND messages.id = lost.id`

/**
 * Leases an attempt for each row of the CTE `released`: the first attempt of a new message, or the next attempt of a waiting
 * message. Returns no row for an existing message that is not waiting.
 */
export const makeMessages = (sql: Sql, terms: LeaseTerms) => sql`
  INSERT INTO messages AS message (project_id, id, campaign_id, audience_id, position, channel_id, provider_type,
    provider_version, address, text, status, attempts, attempting, attempt_log, available_at, worker_id, traceparent, created_at, updated_at)
  SELECT project_id, message_id, campaign_id, audience_id, position, channel_id, provider_type, provider_version, address,
    text, 'pending', attempts + 1, true,
    jsonb_build_array(${startedAttempt(sql, "attempts + 1", instant(sql, sql`send_at`))}),
    send_at + ${terms.leaseMillis}::float8 * interval '1 millisecond', ${workerOf(terms)}::bigint, traceparent,
    ${terms.now}, ${terms.now}
  FROM released
  ON CONFLICT (project_id, id) DO UPDATE SET attempting = true, attempts = excluded.attempts,
    attempt_log = ${sql.literal(keptLog("message.attempt_log"))} || (excluded.attempt_log -> -1),
    available_at = excluded.available_at, worker_id = excluded.worker_id,
    provider_type = excluded.provider_type, provider_version = excluded.provider_version,
    address = excluded.address
  WHERE NOT message.attempting AND message.available_at IS NULL AND ${isWaiting(sql, "message.status")}
    AND message.attempts < excluded.attempts
  RETURNING project_id, id AS message_id, attempts AS number, text, ${sql.literal(uncalledAttempts)} AS uncalled,
    (extract(epoch FROM ${terms.now} - created_at) * 1000)::float8 AS age`

/** Gives up the waiting messages of the recipients in the CTE `abandoned`. No attempt follows. */
export const giveUpMessages = (sql: Sql, now: Statement.Fragment) => sql`
  UPDATE messages SET status = ${givenUp(sql, `abandoned.in_doubt OR messages.${inDoubt}`)}, updated_at = ${now},
    attempt_log = ${sql.literal(endedLog)}
  FROM abandoned
  WHERE messages.project_id = abandoned.project_id AND messages.id = abandoned.message_id
    AND NOT attempting AND ${isWaiting(sql, "messages.status")}`

/**
 * A condition on a message in doubt: another attempt sends no second message, because the provider has its idempotency key. If the attempt
 * was due `longestWait` ago, the provider may have lost the key.
 */
export const isRepeatable = (sql: Sql, now: Statement.Fragment, dueAt: string, providerType: string) => sql`
  ${sql.literal(dueAt)} > ${oldestDue(sql, now)} AND ${sql.literal(providerType)} = ANY(${[...idempotentTypes]}::text[])`

export const isInDoubt = (sql: Sql) => sql.literal(`message.${inDoubt}`)

/** The error code of the last attempt of `message`. */
export const lastError = (sql: Sql) => sql.literal("message.attempt_log -> -1 ->> 'errorCode'")

/** The time of the next attempt of `message`; null if none follows. */
export const nextAttemptAt = (sql: Sql) => sql`
  CASE WHEN ${isWaiting(sql, "message.status")} THEN (message.attempt_log -> -1 ->> 'nextAttemptAt')::timestamptz END`
