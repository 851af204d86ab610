/**
 * The states of a campaign's recipient and the moves between them (contract §9), as data. Moves recipients by the outcomes of their
 * messages, and says which recipients are due, and by which routes they are reached.
 *
 *   pending ──▶ sending ──▶ sent, failed, unknown
 *      │ ▲         │             │
 *      │ └─────────┴─────────────┘  another attempt follows, later or on the fallback route; or an operator retries those that failed
 *      └──▶ skipped, failed, unknown
 */
import type { Statement } from "effect/sql"
import type { SqlClient as Sql } from "effect/sql/SqlClient"
import { recipientStates } from "../api/campaigns/Campaign.ts"
import { machine, stepOf } from "../api/schema/States.ts"
import { isInDoubt, lastError, nextAttemptAt } from "../messaging/Claim.ts"
import { isAwake } from "../platform/MoveState.ts"

export const recipients = machine({
  states: [...recipientStates.open, ...recipientStates.final],
  moves: {
    /** An attempt to send a message to the recipient is leased. */
    released: { pending: "sending" },
    /** After the campaign's audience was frozen, the client withdrew consent, or was suppressed, archived, merged or erased. */
    skipped: { pending: "skipped" },
    /** No route reaches the client any more. */
    unreachable: { pending: "failed" },
    /**
     * An earlier attempt may have been processed. Now the client is excluded (as in `skipped`), or the route can no longer be
     * used.
     */
    undetermined: { pending: "unknown" },
    accepted: { sending: "sent" },
    /** The primary route has failed, and the message was certainly not processed. The fallback route is next. */
    diverted: { sending: "pending" },
    refused: { sending: "failed" },
    /** The same message is sent again after the backoff: it was not processed, or its provider is idempotent. */
    postponed: { sending: "pending" },
    unclear: { sending: "unknown" },
    /** An operator has the recipient get another message (`CampaignControl.ts`). */
    retried: { failed: "pending" }
  }
})
type Move = keyof typeof recipients.moves

const quoted = (states: ReadonlyArray<string>) => states.map((state) => `'${state}'`).join(", ")

export const isOpen = (sql: Sql, status: string) => sql.literal(`${status} IN (${quoted(recipientStates.open)})`)

/** Returns SQL for the state after the move in the column `move`; NULL if the move is not in `moves`. */
export const recipientStateAfter = (sql: Sql, moves: ReadonlyArray<Move>) =>
  sql.literal(`CASE move ${moves.map((move) => `WHEN '${move}' THEN '${stepOf(recipients, move).to}'`).join(" ")} END`)

/**
 * The moves of a recipient after its attempt has ended, each with its condition. The first condition that holds applies.
 * `message` is the recipient's last message.
 */
const ends: ReadonlyArray<readonly [Move, string]> = [
  ["accepted", "message.status = 'sent'"],
  ["diverted", "message.status = 'failed' AND diverts"],
  ["refused", "message.status = 'failed'"],
  ["postponed", "next_at IS NOT NULL"],
  ["unclear", "message.status = 'unknown'"]
]

/** Maximum number of recipients that one statement moves. */
const batch = 1_000

/**
 * Moves `sending` recipients whose message has an outcome and no attempt in flight (`available_at` is null). Only the message
 * stores the outcome, so any process can collect it. After the move the recipient is no longer `sending`, so the outcome is
 * collected once. A recipient that was released again after the snapshot has more `attempts` than its message in the snapshot,
 * and is left out. The recursion finds the audiences with such recipients, by skipping through the index
 * `campaign_recipients_leased`.
 *
 * Background work locks each row with SKIP LOCKED before it changes the row, and so the audience, whose counts the trigger
 * `count_recipients()` changes. Other statements that move recipients lock the recipients first, and wait.
 */
export const collect = (sql: Sql) => sql`
  WITH RECURSIVE busy AS (
    (SELECT project_id, audience_id FROM campaign_recipients WHERE status = 'sending' ORDER BY project_id, audience_id LIMIT 1)
    UNION ALL
    SELECT next.* FROM busy, LATERAL (
      SELECT project_id, audience_id FROM campaign_recipients
      WHERE status = 'sending' AND (project_id, audience_id) > (busy.project_id, busy.audience_id)
      ORDER BY project_id, audience_id LIMIT 1
    ) next
  ),
  audience AS MATERIALIZED (
    SELECT project_id, audience_id FROM busy JOIN audiences USING (project_id) WHERE audiences.id = busy.audience_id
      AND ${isAwake(sql, "busy.project_id")}
    FOR NO KEY UPDATE OF audiences SKIP LOCKED
  ),
  ended AS MATERIALIZED (
    SELECT recipient.project_id, recipient.audience_id, recipient.position, outcome.in_doubt, next_at, message.attempts, error,
      ${sql.literal(`CASE ${ends.map(([move, condition]) => `WHEN ${condition} THEN '${move}'`).join(" ")} END`)} AS move
    FROM audience JOIN campaign_recipients AS recipient USING (project_id, audience_id)
      CROSS JOIN LATERAL (
        SELECT * FROM messages WHERE project_id = recipient.project_id AND id = recipient.message_id OFFSET 0
      ) AS message
      LEFT JOIN campaigns ON campaigns.project_id = message.project_id AND campaigns.id = message.campaign_id
      CROSS JOIN LATERAL (
        SELECT recipient.route = 'primary' AND campaigns.fallback_channel_id IS NOT NULL AS diverts,
          ${isInDoubt(sql)} AS in_doubt, ${nextAttemptAt(sql)} AS next_at,
          ${lastError(sql)} AS error
      ) AS outcome
    WHERE recipient.status = 'sending' AND message.available_at IS NULL AND message.attempts >= recipient.attempts
    LIMIT ${batch}::int
    FOR NO KEY UPDATE OF recipient SKIP LOCKED
  )
  UPDATE campaign_recipients AS recipient SET in_doubt = ended.in_doubt,
    status = ${recipientStateAfter(
      sql,
      ends.map(([move]) => move)
    )},
    available_at = next_at,
    error_code = CASE WHEN move IN ('diverted', 'refused') THEN error END,
    route = CASE move WHEN 'diverted' THEN 'fallback' ELSE recipient.route END,
    attempts = CASE move WHEN 'diverted' THEN 0 ELSE ended.attempts END,
    message_id = CASE move WHEN 'diverted' THEN NULL ELSE recipient.message_id END
  FROM ended
  WHERE recipient.project_id = ended.project_id AND recipient.audience_id = ended.audience_id
    AND recipient.position = ended.position AND move IS NOT NULL`

/** Pending recipients of a campaign. `isDue` is a condition on their `available_at`. */
const openRecipients = (sql: Sql, campaign: "campaigns" | "paced", isDue: Statement.Fragment) => sql`
  campaign_recipients
  WHERE project_id = ${sql(campaign)}.project_id AND audience_id = ${sql(campaign)}.audience_id
    AND status = 'pending' AND ${isDue}`

/**
 * Returns SQL that is true if the campaign has a pending recipient with this condition, otherwise null. With EXISTS, PostgreSQL
 * might read the pending recipients of all campaigns at once.
 */
const hasOpen = (sql: Sql, isDue: Statement.Fragment) =>
  sql`(SELECT true FROM ${openRecipients(sql, "campaigns", isDue)} LIMIT 1)`

/** A pending recipient that may be due: its next attempt is due, and its route is not blocked. */
const isDueAgain = (sql: Sql, now: Statement.Fragment) => sql`
  available_at <= ${now} AND NOT CASE route WHEN 'primary' THEN primary_blocked ELSE fallback_blocked END`

/** A pending recipient without an attempt on its route, after those that wait for an open circuit. */
const isFresh = (sql: Sql) => sql`available_at IS NULL AND position > passed_position`

/** Number of recipients that are examined beyond the campaign's quota of sends, because some are skipped. */
const maxSkipped = 100

/** The first recipients of each campaign, in the order of the index `campaign_recipients_open`. `Release.ts` locks those that move. */
const first = (sql: Sql, isDue: Statement.Fragment) => sql`
  SELECT paced.*, recipient.* FROM paced, LATERAL (
    SELECT position, client_id, route AS last_route, provider_type AS last_provider, message_id AS last_message,
      attempts, in_doubt, available_at, retries
    FROM ${openRecipients(sql, "paced", isDue)}
    ORDER BY available_at, position LIMIT least(paced.quota + ${maxSkipped}::int, paced.share)
  ) recipient`

/**
 * The recipients of the campaigns in `paced` that may be released. `again`: recipients whose `available_at` has passed. `fresh`: recipients
 * whose route was not tried yet.
 */
export const candidates = (sql: Sql, now: Statement.Fragment) => sql`
  again AS MATERIALIZED (${first(sql, isDueAgain(sql, now))}),
  fresh AS MATERIALIZED (${first(sql, isFresh(sql))})`

/** Whether a campaign has a candidate. */
export const hasCandidate = (sql: Sql, now: Statement.Fragment) =>
  sql`coalesce(${hasOpen(sql, isDueAgain(sql, now))}, ${hasOpen(sql, isFresh(sql))}, false)`

const placeholder = String.raw`\{\{(?:displayName|firstName|lastName)\}\}`

/**
 * The routes with an active channel, for the campaigns in `paced`. `parts` is the text, split before and after each placeholder.
 */
export const routes = (sql: Sql) => sql`
  route AS MATERIALIZED (
    SELECT paced.project_id, paced.id AS campaign_id, configured.kind, configured.rank, channels.id AS channel_id,
      channels.provider_type, channels.provider_version, channels.config,
      regexp_split_to_array(templates.body, ${`(?=${placeholder})|(?<=${placeholder})`}) AS parts,
      (paced.project_id, channels.id) IN (SELECT * FROM blocked_channel) AS is_blocked
    FROM paced
      CROSS JOIN LATERAL (VALUES
        ('primary', 1, primary_channel_id, primary_template_id, primary_template_version),
        ('fallback', 2, fallback_channel_id, fallback_template_id, fallback_template_version)
      ) AS configured (kind, rank, channel_id, template_id, template_version)
      CROSS JOIN LATERAL (
        SELECT * FROM channels
        WHERE project_id = paced.project_id AND id = configured.channel_id AND status = 'active' OFFSET 0
      ) channels
      JOIN templates ON templates.project_id = paced.project_id AND templates.id = configured.template_id
        AND templates.version = configured.template_version
  )`

/** The text of a route for a client. Names replace placeholders; an absent name is an empty text (contract §9). */
export const text = `(
  SELECT string_agg(CASE part WHEN '{{displayName}}' THEN display_name WHEN '{{firstName}}' THEN coalesce(first_name, '')
    WHEN '{{lastName}}' THEN coalesce(last_name, '') ELSE part END, '' ORDER BY place)
  FROM unnest(parts) WITH ORDINALITY AS piece (part, place)
)`

/**
 * SQL for the id of a message: the same for each attempt on a route, until the recipient is retried after it has failed. The provider gets
 * it as the idempotency key. `retries` is the SQL of the recipient's number of retries, which is `audiences.retries` at most.
 */
export const messageId = (retries: string) => `'msg_' || left(encode(sha256(convert_to(concat(
  '[', to_json(project_id), ',', to_json(audience_id), ',', to_json(client_id), ',', to_json(kind), ',' || nullif(${retries}, 0), ']'
), 'UTF8')), 'hex'), 32)`
