/** SQL for the running campaigns with due sends, their pace and their routes. */
import type { SqlClient, Statement } from "effect/sql"
import type { CampaignId, ProjectId } from "../../api/schema/Ids.ts"
import type { Terms as MessageTerms } from "../../messaging/Attempts.ts"
import { isAwake } from "../../platform/Moves.ts"

type Sql = SqlClient.SqlClient

export interface Terms extends MessageTerms {
  /** Recipients whose send is due before this time are released (`Release.ts`). */
  readonly until: Statement.Fragment
  readonly passed: ReadonlyArray<Passed>
}

/**
 * A campaign on a channel whose circuit is open. Its recipients without an attempt are looked at in the order of `position`. All
 * of them up to this one wait for the channel, so later ones, which another route may reach, are looked at next.
 */
export interface Passed {
  readonly projectId: ProjectId
  readonly campaignId: CampaignId
  readonly position: number
}

/** Pending recipients of a campaign. `isDue` is a condition on their `available_at`. */
export const openRecipients = (sql: Sql, campaign: "campaigns" | "paced", isDue: Statement.Fragment) => sql`
  campaign_recipients
  WHERE project_id = ${sql(campaign)}.project_id AND audience_id = ${sql(campaign)}.audience_id
    AND status = 'pending' AND ${isDue}`

/**
 * Returns SQL that is true if the campaign has a pending recipient with this condition, otherwise null. With EXISTS, PostgreSQL
 * might read the pending recipients of all campaigns at once.
 */
const hasOpen = (sql: Sql, isDue: Statement.Fragment) =>
  sql`(SELECT true FROM ${openRecipients(sql, "campaigns", isDue)} LIMIT 1)`

const isFull = (sql: Sql, channel: "primary_channel_id" | "fallback_channel_id") => sql`
  EXISTS (
    SELECT FROM channel_limit
    WHERE channel_limit.project_id = campaigns.project_id AND channel_id = ${sql(channel)} AND free = 0
  )`

/** A pending recipient that may be due: its next attempt is due, and its route is not blocked. */
export const isDueAgain = (sql: Sql, now: Statement.Fragment) => sql`
  available_at <= ${now} AND NOT CASE route WHEN 'primary' THEN primary_blocked ELSE fallback_blocked END`

/** A pending recipient without an attempt on its route, after those that wait for an open circuit. */
export const isFresh = (sql: Sql) => sql`available_at IS NULL AND position > passed_position`

/**
 * Locks running campaigns whose next send is due before `until`. The lock lets only one process at a time set the time of a
 * campaign's next send. At most `limits.free` campaigns are locked. A campaign without a due recipient, or without a channel
 * with a free permit, would use up one of these places, so it is left out. It is not locked either, as a lock is a write. Projects
 * take turns, so that campaigns that stay due for long, on a busy channel, do not always come first. `quota` is the number of
 * evenly spaced sends before `until`. Missed sends are not made up for.
 */
export const pacedCampaigns = (sql: Sql, { limits, now, passed, until }: Terms) => sql`
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
      AND coalesce(${hasOpen(sql, isDueAgain(sql, now))}, ${hasOpen(sql, isFresh(sql))}, false)
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
      floor(extract(epoch FROM ${until} - first_at) / extract(epoch FROM gap))::int + 1 AS quota,
      CASE filter ->> 'contactStatus' WHEN 'active' THEN '-infinity' ELSE audiences.created_at END AS frozen_at
    FROM campaign JOIN audiences ON audiences.project_id = campaign.project_id AND audiences.id = campaign.audience_id
  )`

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
