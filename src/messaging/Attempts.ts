/**
 * SQL of attempts to send a message: claim, lease, record. The last part is for the messages of campaigns. To release a recipient means to
 * lease an attempt of its message. Between two attempts, such a message has no `available_at`, and waits until its recipient is released
 * again.
 */
import { Duration } from "effect"
import type { Statement } from "effect/sql"
import type { SqlClient as Sql } from "effect/sql/SqlClient"
import type { CampaignId, ChannelId, ConversationId, MessageId, ProjectId } from "../api/schema/Ids.ts"
import { instant, later } from "../sql/Times.ts"
import { type Limits, limitTables, shareOf } from "./providers/ChannelLimits.ts"
import {
  after,
  attemptAfter,
  type Attempted,
  before,
  columns,
  endedLog,
  givenUp,
  inDoubt,
  isWaiting,
  keptLog,
  longestWait,
  type Message,
  type Result,
  startedAttempt,
  uncalledAttempts
} from "./Messages/Record.ts"
import { isAwake } from "../platform/MoveState.ts"

export interface Attempt extends Attempted {
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
}

export interface AttemptResult {
  readonly attempt: Attempt
  readonly result: Result
}

/** A message after the result of its attempt. If `messageId` is null, another transaction has locked the message. */
type Recorded = { readonly project: ProjectId; readonly id: MessageId } & (Message | { readonly messageId: null })

/**
 * Records the results of attempts. Returns no row for an attempt that already has a result. Skips a message that another
 * transaction has locked, and returns its id. The time of the next attempt is by the database's clock. A campaign's message gets
 * no `available_at`: it waits until `campaigns/Runner.ts` leases its next attempt. A message without an address is of a client who was
 * erased: what its provider has answered may repeat the text.
 */
export const record = (sql: Sql, now: Statement.Fragment, attempted: ReadonlyArray<AttemptResult>) => sql<Recorded>`
  WITH result AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(${JSON.stringify(attempted.map(rowOf))}::jsonb) AS result (
      project_id text, id text, number int, "from" text[], "to" text, entry jsonb, delay float8
    )
  ),
  open AS MATERIALIZED (SELECT result.* FROM ${attemptsOf(sql)}),
  locked AS MATERIALIZED (SELECT result.* FROM ${attemptsOf(sql)} FOR NO KEY UPDATE OF messages SKIP LOCKED),
  recorded AS (
    UPDATE messages SET status = "to", attempting = false, worker_id = NULL, updated_at = finished_at,
      available_at = CASE WHEN campaign_id IS NULL THEN next_at END,
      attempt_log = jsonb_set(attempt_log, '{-1}', attempt_log -> -1 || CASE address WHEN '' THEN entry - 'reason' ELSE entry END || jsonb_build_object(
        'finishedAt', ${instant(sql, sql`finished_at`)}, 'nextAttemptAt', ${instant(sql, sql`next_at`)}))
    FROM (SELECT date_trunc('milliseconds', ${now}) AS finished_at) AS clock,
      locked, LATERAL (SELECT finished_at + delay * interval '1 millisecond' AS next_at) AS time, channels
    WHERE messages.project_id = locked.project_id AND messages.id = locked.id
      AND channels.project_id = messages.project_id AND channels.id = messages.channel_id
    RETURNING messages.project_id, ${columns(sql, now)}
  )
  SELECT open.project_id AS project, open.id, recorded.* FROM open
    LEFT JOIN recorded ON recorded.project_id = open.project_id AND recorded."messageId" = open.id`

/** The messages whose attempts in flight the rows of `result` end. */
const attemptsOf = (sql: Sql) => sql`
  result JOIN messages ON messages.project_id = result.project_id AND messages.id = result.id
    AND messages.attempting AND messages.attempts = result.number AND messages.status = ANY(result."from")`

const rowOf = ({ attempt: { messageId, number, projectId }, result }: AttemptResult) => {
  const { delayMillis, errorCode, on, providerMessageId, reason } = result
  const entry = { status: attemptAfter[on], providerMessageId, errorCode, reason }
  return { project_id: projectId, id: messageId, number, from: before(on), to: after(on), entry, delay: delayMillis }
}

/**
 * A message with a leased attempt. If `lost`, an earlier lease of the attempt has ended without a result: the attempt is not
 * made again, but recorded as unknown.
 */
export interface Claim extends Attempt {
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
export const oldestDue = (sql: Sql, now: Statement.Fragment) => later(sql, now, -Duration.toMillis(longestWait))

/**
 * Lost attempts, due messages, at most as many as their channel has free permits, and messages that have waited for too long.
 * They are numbered within their channel.
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

export const isInDoubt = (sql: Sql) => sql.literal(`message.${inDoubt}`)

/** The error code of the last attempt of `message`. */
export const lastError = (sql: Sql) => sql.literal("message.attempt_log -> -1 ->> 'errorCode'")

/** The time of the next attempt of `message`; null if none follows. */
export const nextAttemptAt = (sql: Sql) => sql`
  CASE WHEN ${isWaiting(sql, "message.status")} THEN (message.attempt_log -> -1 ->> 'nextAttemptAt')::timestamptz END`
