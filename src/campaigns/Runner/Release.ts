/**
 * Releases recipients at the pace of the campaign. Each gets a message with a leased attempt, or its waiting message gets the next attempt.
 * One statement locks a campaign, and releases its sends that are due now or in a moment, evenly spaced. It also advances the time of the
 * next send. Meanwhile other processes skip the locked campaign, so all processes together keep its pace. The id of a message derives from
 * recipient and route, so a recipient has at most one message on each route, and one more after each retry by an operator.
 * Each row is locked with SKIP LOCKED before it is changed, so the statement waits for no other.
 */
import { Effect } from "effect"
import type { Statement } from "effect/sql"
import type { SqlClient as Sql } from "effect/sql/SqlClient"
import { stepOf } from "../../api/schema/States.ts"
import {
  type Claim,
  giveUpMessages,
  isRepeatable,
  type LeaseTerms,
  limitTables,
  makeMessages,
  shareOf
} from "../../messaging/Claim.ts"
import { candidates, hasCandidate, messageId, recipients, recipientStateAfter, routes, text } from "../Recipients.ts"
import type { CampaignId, ProjectId } from "../../api/schema/Ids.ts"
import { isAwake } from "../../platform/MoveState.ts"

interface ReleaseTerms extends LeaseTerms {
  /** Recipients whose send is due before this time are released. */
  readonly until: Statement.Fragment
  readonly passed: ReadonlyArray<Passed>
}

/**
 * A campaign that waits for a channel with an open circuit. Recipients without an attempt are examined in the order of `position`.
 * All of them up to this position wait for the channel. The next release begins after it, as another route may reach later ones.
 */
export interface Passed {
  readonly projectId: ProjectId
  readonly campaignId: CampaignId
  readonly position: number
}

/** A released message, or how far a campaign on an open circuit has been looked at. */
type Row = (Claim & { readonly position: null }) | ({ readonly messageId: null } & Passed)

export const release = (sql: Sql, terms: ReleaseTerms) =>
  Effect.map(statementOf(sql, terms), (rows) => ({
    claims: rows.filter((row) => row.messageId !== null),
    passed: rows.filter((row) => row.messageId === null)
  }))

const statementOf = (sql: Sql, terms: ReleaseTerms) => sql<Row>`
  WITH ${limitTables(sql, terms.limits)},
  ${pacedCampaigns(sql, terms)},
  ${routes(sql)},
  ${candidates(sql, terms.now)},
  ${checked(sql, terms)},
  passed_now AS (
    SELECT project_id, id, coalesce(min(position) FILTER (WHERE move = 'released') - 1, max(position)) AS position
    FROM checked WHERE available_at IS NULL GROUP BY project_id, id HAVING bool_or(move = 'blocked')
  ),
  ${chosen(sql, terms)},
  ${moving(sql)},
  ended AS (
    UPDATE campaign_recipients AS recipient SET
      status = ${recipientStateAfter(sql, ["skipped", "unreachable", "undetermined"])}, available_at = NULL,
      error_code = CASE move WHEN 'unreachable' THEN coalesce(error_code, 'unreachable') END
    FROM moving
    WHERE move <> 'released' AND recipient.project_id = moving.project_id
      AND recipient.audience_id = moving.audience_id AND recipient.position = moving.position
  ),
  abandoned AS (
    SELECT project_id, last_message AS message_id, in_doubt FROM moving
    WHERE move <> 'released' OR kind <> last_route
  ),
  given_up AS (${giveUpMessages(sql, terms.now)}),
  released AS MATERIALIZED (
    SELECT project_id, ${sql.literal(messageId("retries"))} AS message_id, id AS campaign_id, audience_id, position, channel_id,
      provider_type, provider_version, address, ${sql.literal(text)} AS text, in_doubt, traceparent, send_at, gap, kind, config,
      CASE WHEN kind = last_route THEN attempts ELSE 0 END AS attempts
    FROM moving WHERE move = 'released'
  ),
  made AS (${makeMessages(sql, terms)}),
  -- Also moves a recipient whose message an operator has settled. The next collection then takes the outcome.
  sending AS (
    UPDATE campaign_recipients AS recipient SET status = ${stepOf(recipients, "released").to}, route = kind, available_at = NULL,
      provider_type = released.provider_type, message_id = released.message_id, attempts = coalesce(number, 0)
    FROM released LEFT JOIN made USING (project_id, message_id)
    WHERE recipient.project_id = released.project_id AND recipient.audience_id = released.audience_id
      AND recipient.position = released.position
  ),
  advanced AS (
    UPDATE campaigns SET next_send_at = last.at + last.gap
    FROM (SELECT project_id, campaign_id, max(send_at) AS at, max(gap) AS gap FROM released GROUP BY 1, 2) last
    WHERE campaigns.project_id = last.project_id AND campaigns.id = last.campaign_id
  )
  SELECT coalesce(released.project_id, passed_now.project_id) AS "projectId",
    coalesce(campaign_id, passed_now.id) AS "campaignId", passed_now.position, message_id AS "messageId",
    NULL AS "conversationId", channel_id AS "channelId", provider_type AS "providerType", config, address, made.text, number,
    in_doubt AS "inDoubt", uncalled, age AS "ageMillis", traceparent, false AS lost,
    (extract(epoch FROM send_at - ${terms.now}) * 1000)::float8 AS "delayMillis"
  FROM (released JOIN made USING (project_id, message_id)) FULL JOIN passed_now ON false
  ORDER BY send_at`

/**
 * The recipients that fit the limits, with the time of each send. The limits are the quota of the campaign, then the permits of the channel.
 * Projects with fewer attempts in flight come first. `turn` counts only recipients with a permit: others do not slow the pace.
 */
const chosen = (sql: Sql, { limits }: ReleaseTerms) => sql`
  ranked AS (
    SELECT *, row_number() OVER (PARTITION BY project_id, id ORDER BY available_at, position) AS rank
    FROM checked WHERE move = 'released'
  ),
  within_quota AS (
    SELECT *, row_number() OVER (PARTITION BY project_id, channel_id ORDER BY rank, id) AS channel_rank
    FROM ranked WHERE rank <= quota
  ),
  within_channel AS (
    SELECT within_quota.*,
      row_number() OVER (PARTITION BY project_id, id ORDER BY rank) AS turn,
      row_number() OVER (PARTITION BY project_id ORDER BY rank, id) AS project_rank
    FROM within_quota LEFT JOIN channel_limit USING (project_id, channel_id)
    WHERE channel_rank <= coalesce(free, ${limits.newChannel}::int)
  ),
  chosen AS MATERIALIZED (
    SELECT within_channel.*, first_at + (turn - 1) * gap AS send_at
    FROM within_channel LEFT JOIN project_share USING (project_id)
    ORDER BY ${shareOf(sql, "project_rank")}, project_id LIMIT ${limits.free}::int
  )`

/** The columns of a candidate that are needed after the choice of recipients. */
const candidate = `project_id, id, audience_id, position, client_id, available_at, attempts, retries, in_doubt, last_route, last_message,
  move, kind, channel_id, provider_type, provider_version, config, address, parts, display_name, first_name, last_name, traceparent, gap`

/**
 * Locks the recipients that move (those within the limits, and those whose move is final), their waiting messages, and the
 * audiences that count a final move. A recipient is left out if another transaction has locked one of these rows, or if it
 * has changed since the snapshot. The state of a recipient is a parameter, so that the recipient is looked up by its key: the index
 * of open recipients, which may be small when the plan is made, would be read from its start.
 */
const moving = (sql: Sql) => sql`
  wanted AS MATERIALIZED (
    SELECT ${sql.literal(candidate)}, NULL::timestamptz AS send_at FROM checked WHERE move NOT IN ('released', 'blocked')
    UNION ALL SELECT ${sql.literal(candidate)}, send_at FROM chosen
  ),
  open_message AS MATERIALIZED (
    SELECT messages.project_id, messages.id FROM wanted
      JOIN messages ON messages.project_id = wanted.project_id AND messages.id = last_message
    FOR NO KEY UPDATE OF messages SKIP LOCKED
  ),
  open_audience AS MATERIALIZED (
    SELECT audiences.project_id, audiences.id
    FROM (SELECT DISTINCT project_id, audience_id FROM wanted WHERE move <> 'released') final
      JOIN audiences ON audiences.project_id = final.project_id AND audiences.id = final.audience_id
    FOR NO KEY UPDATE OF audiences SKIP LOCKED
  ),
  moving AS MATERIALIZED (
    SELECT wanted.* FROM wanted JOIN campaign_recipients AS recipient USING (project_id, audience_id, position)
    WHERE recipient.status = ${"pending"}::text AND recipient.attempts = wanted.attempts
      AND recipient.available_at IS NOT DISTINCT FROM wanted.available_at
      AND (last_message IS NULL OR (project_id, last_message) IN (SELECT project_id, id FROM open_message))
      AND (move = 'released' OR (project_id, audience_id) IN (SELECT project_id, id FROM open_audience))
    FOR NO KEY UPDATE OF recipient SKIP LOCKED
  )`

/**
 * The route and the move of each candidate. The move is one of `Recipients.ts`, or `blocked`. The rules:
 *
 * - A recipient keeps its route while the route can reach it.
 * - If an earlier attempt may have been processed, only the route of that attempt is possible, and only if its provider is
 *   unchanged, at the same address, and idempotent, and the repeat is less than a day overdue: later the provider may have lost its key.
 * - A client that was archived after the audience was frozen is skipped. In an audience of active clients, every archived client
 *   is skipped without a comparison of times, because the clocks of processes may differ.
 * - A client that was erased is skipped, also if it was made again under its id since its message was erased.
 * - A recipient is `blocked` if the circuit of its channel admits no call. It stays as it is, and `Passed` has its position.
 */
const checked = (sql: Sql, { now }: ReleaseTerms) => sql`
  checked AS MATERIALIZED (
    SELECT candidate.*, reachable.*, clients.display_name, clients.first_name, clients.last_name,
      CASE
        WHEN is_excluded AND in_doubt OR reachable.kind IS NULL AND in_doubt THEN 'undetermined'
        WHEN is_excluded THEN 'skipped'
        WHEN reachable.kind IS NULL THEN 'unreachable'
        WHEN is_blocked THEN 'blocked'
        ELSE 'released'
      END AS move
    FROM (SELECT * FROM again UNION ALL SELECT * FROM fresh) candidate
      LEFT JOIN clients ON clients.project_id = candidate.project_id AND clients.id = candidate.client_id
      CROSS JOIN LATERAL (
        SELECT clients.id IS NULL OR clients.status = 'archived' AND clients.archived_at > frozen_at OR NOT clients.marketing_consent
          OR clients.suppressed OR clients.merged_into_client_id IS NOT NULL OR (
            SELECT address FROM messages WHERE project_id = candidate.project_id AND id = candidate.last_message
          ) = ''
      ) AS eligibility (is_excluded)
      LEFT JOIN LATERAL (
        SELECT route.kind, route.channel_id, route.provider_type, route.provider_version, route.config, route.parts, is_blocked,
          address.address
        FROM route, LATERAL (
          SELECT address FROM client_addresses
          WHERE project_id = candidate.project_id AND client_id = candidate.client_id AND channel_id = route.channel_id
          ORDER BY position LIMIT 1
        ) address
        WHERE route.project_id = candidate.project_id AND route.campaign_id = candidate.id
          AND CASE
            WHEN candidate.in_doubt
              THEN ${isRepeatable(sql, now, "candidate.available_at", "route.provider_type")}
                AND route.kind = candidate.last_route AND route.provider_type = candidate.last_provider
                AND route.provider_version = (
                  SELECT provider_version FROM messages
                  WHERE project_id = candidate.project_id AND id = candidate.last_message LIMIT 1
                )
            ELSE candidate.last_route = 'primary' OR route.kind = 'fallback'
          END
        ORDER BY route.rank LIMIT 1
      ) reachable ON true
  )`

const isFull = (sql: Sql, channel: "primary_channel_id" | "fallback_channel_id") => sql`
  EXISTS (
    SELECT FROM channel_limit
    WHERE channel_limit.project_id = campaigns.project_id AND channel_id = ${sql(channel)} AND free = 0
  )`

/** Maximum number of recipients of each kind (`candidates`) that one release examines, of all campaigns together. */
const maxExamined = 5_000

/**
 * Locks running campaigns whose next send is due before `until`. The lock lets only one process at a time set the time of a campaign's next
 * send. At most `limits.free` campaigns are locked. A campaign without a due recipient, or without a channel with a free permit, would use
 * up one of these places, so it is left out. It is not locked either, as a lock is a write. Projects take turns, so that campaigns that
 * stay due for long, on a busy channel, do not always come first. `quota` is the number of evenly spaced sends before `until`, as far as
 * permits are free. Missed sends are not made up for. `share` is the campaign's share of the recipients that may be examined: the projects
 * have equal shares, and so have the campaigns of a project.
 */
const pacedCampaigns = (sql: Sql, { limits, now, passed, until }: ReleaseTerms) => sql`
  blocked_channel AS MATERIALIZED (
    SELECT * FROM unnest(${limits.blocked.map(({ projectId }) => projectId)}::text[],
      ${limits.blocked.map(({ channelId }) => channelId)}::text[])
  ),
  passed AS MATERIALIZED (
    SELECT * FROM unnest(${passed.map(({ projectId }) => projectId)}::text[],
      ${passed.map(({ campaignId }) => campaignId)}::text[], ${passed.map(({ position }) => position)}::int[]
    ) AS passed (project_id, id, position)
  ),
  ready AS MATERIALIZED (
    SELECT project_id, id, primary_blocked, fallback_blocked, passed_position,
      row_number() OVER (PARTITION BY project_id ORDER BY next_send_at NULLS FIRST) AS turn
    FROM campaigns LEFT JOIN passed USING (project_id, id)
      CROSS JOIN LATERAL (
        SELECT (project_id, primary_channel_id) IN (SELECT * FROM blocked_channel) AS primary_blocked,
          coalesce((project_id, fallback_channel_id) IN (SELECT * FROM blocked_channel), false) AS fallback_blocked
      ) AS circuits
      CROSS JOIN LATERAL (
        SELECT coalesce(CASE WHEN primary_blocked OR fallback_blocked THEN passed.position END, -1) AS passed_position
      ) AS place
    WHERE status = 'running' AND ${isAwake(sql, "project_id")} AND (next_send_at IS NULL OR next_send_at <= ${until})
      AND (NOT ${isFull(sql, "primary_channel_id")}
        OR fallback_channel_id IS NOT NULL AND NOT ${isFull(sql, "fallback_channel_id")})
      AND ${hasCandidate(sql, now)}
  ),
  campaign AS MATERIALIZED (
    SELECT project_id, id, audience_id, traceparent, fallback_channel_id IS NOT NULL AS has_fallback,
      greatest(next_send_at, ${now}) AS first_at, interval '1 minute' / sends_per_minute AS gap,
      primary_blocked, fallback_blocked, passed_position,
      primary_channel_id, primary_template_id, primary_template_version,
      fallback_channel_id, fallback_template_id, fallback_template_version
    FROM ready JOIN campaigns USING (project_id, id)
    WHERE status = 'running' AND (next_send_at IS NULL OR next_send_at <= ${until})
    ORDER BY turn, next_send_at NULLS FIRST
    LIMIT ${limits.free}::int
    FOR NO KEY UPDATE OF campaigns SKIP LOCKED
  ),
  paced AS MATERIALIZED (
    SELECT campaign.*,
      least(floor(extract(epoch FROM ${until} - first_at) / extract(epoch FROM gap))::int + 1, ${limits.free}::int) AS quota,
      greatest(1, ${maxExamined}::int / (SELECT count(DISTINCT project_id) FROM campaign)
        / count(*) OVER (PARTITION BY campaign.project_id)) AS share,
      CASE filter ->> 'contactStatus' WHEN 'active' THEN '-infinity' ELSE audiences.created_at END AS frozen_at
    FROM campaign, LATERAL (
      SELECT filter, created_at FROM audiences WHERE project_id = campaign.project_id AND id = campaign.audience_id OFFSET 0
    ) AS audiences
  )`
