/**
 * Claims recipients for the next moment, paced: a campaign's row is the gate, over all replicas. Whoever holds it takes
 * the sends that fall into the window, evenly spaced, and moves the time of the next one on; others pass on.
 */
import type { SqlClient, Statement } from "effect/sql"
import type { AudienceId, CampaignId, ChannelId, ClientId, ProjectId } from "../../api/Ids.ts"
import type { ProviderType } from "../../api/messaging/Messaging.ts"

/** A recipient to be sent to, at `sendAt`. */
export interface Claim {
  readonly projectId: ProjectId
  readonly campaignId: CampaignId
  readonly audienceId: AudienceId
  readonly position: number
  readonly clientId: ClientId
  readonly route: "primary" | "fallback"
  /** The number of the attempt on this route; with the route, the fence of its lease. */
  readonly attempt: number
  /** Whether an earlier attempt may have been processed. */
  readonly inDoubt: boolean
  /** Whether another route is left when this one fails. */
  readonly hasFallback: boolean
  readonly sendAt: Date
  readonly channelId: ChannelId
  readonly providerType: ProviderType
  /** Sealed. */
  readonly config: Uint8Array
  readonly address: string
  readonly template: string
  readonly displayName: string
  readonly firstName: string | null
  readonly lastName: string | null
  /** Of the command that set the campaign going. */
  readonly traceparent: string
}

export interface Terms {
  readonly now: Date
  /** Sends up to this time are claimed. */
  readonly until: Date
  /** From the time of a send to the end of its lease, in milliseconds. */
  readonly leaseMillis: number
  /** Claims at most. */
  readonly slots: number
  /** The providers that may be called again by what may have reached them. */
  readonly idempotent: ReadonlyArray<ProviderType>
}

/** So many that are not to be sent to are settled beside those that are. */
const settledBeside = 100

/** A campaign's recipients whose turn it is: of those that come again, or of those that were never tried. */
const turnOf = (sql: SqlClient.SqlClient, campaign: "campaigns" | "paced", isDue: Statement.Fragment) => sql`
  campaign_recipients
  WHERE project_id = ${sql(campaign)}.project_id AND audience_id = ${sql(campaign)}.audience_id
    AND status = 'pending' AND ${isDue}`

/** The first of them, more than the campaign's quota, as not all may be sent to. */
const waiting = (sql: SqlClient.SqlClient, isDue: Statement.Fragment) => sql`
  SELECT paced.*, recipient.* FROM paced, LATERAL (
    SELECT position, client_id, route AS was_on, provider_type AS was_with, attempts, in_doubt, available_at
    FROM ${turnOf(sql, "paced", isDue)}
    ORDER BY available_at, position LIMIT paced.quota + ${settledBeside}::int
    FOR NO KEY UPDATE SKIP LOCKED
  ) recipient`

/**
 * What is due again goes before what was never tried; a campaign that has neither takes no slot from others. A
 * recipient's route is theirs as long as it leads to them; in doubt, only the route on which they may have got it is any
 * use, as long as its provider is the same and can tell. Who is archived is out if that was after the freeze; of an
 * audience of active clients that is whoever is archived, whatever the clocks say.
 */
export const claim = (sql: SqlClient.SqlClient, { idempotent, leaseMillis, now, slots, until }: Terms) => {
  const again = sql`available_at <= ${now}::timestamptz`
  const fresh = sql`available_at IS NULL`
  return sql<Claim>`
  WITH campaign AS MATERIALIZED (
    SELECT project_id, id, audience_id, traceparent, fallback_channel_id IS NOT NULL AS has_fallback,
      greatest(next_send_at, ${now}::timestamptz) AS first_at, interval '1 minute' / sends_per_minute AS gap,
      primary_channel_id, primary_template_id, primary_template_version,
      fallback_channel_id, fallback_template_id, fallback_template_version
    FROM campaigns
    WHERE status = 'running' AND (next_send_at IS NULL OR next_send_at <= ${until}::timestamptz)
      AND (EXISTS (SELECT FROM ${turnOf(sql, "campaigns", again)}) OR EXISTS (SELECT FROM ${turnOf(sql, "campaigns", fresh)}))
    ORDER BY next_send_at NULLS FIRST
    LIMIT ${slots}::int
    FOR NO KEY UPDATE SKIP LOCKED
  ),
  paced AS MATERIALIZED (
    SELECT campaign.*,
      floor(extract(epoch FROM ${until}::timestamptz - first_at) / extract(epoch FROM gap))::int + 1 AS quota,
      CASE filter ->> 'contactStatus' WHEN 'active' THEN '-infinity' ELSE audiences.created_at END AS frozen_at
    FROM campaign JOIN audiences ON audiences.project_id = campaign.project_id AND audiences.id = campaign.audience_id
  ),
  route AS MATERIALIZED (
    SELECT paced.project_id, paced.id AS campaign_id, leg.kind, leg.rank, channels.id AS channel_id,
      channels.provider_type, channels.config, templates.body
    FROM paced
      CROSS JOIN LATERAL (VALUES
        ('primary', 1, primary_channel_id, primary_template_id, primary_template_version),
        ('fallback', 2, fallback_channel_id, fallback_template_id, fallback_template_version)
      ) AS leg (kind, rank, channel_id, template_id, template_version)
      JOIN channels ON channels.project_id = paced.project_id AND channels.id = leg.channel_id AND channels.status = 'active'
      JOIN templates ON templates.project_id = paced.project_id AND templates.id = leg.template_id
        AND templates.version = leg.template_version
  ),
  again AS MATERIALIZED (${waiting(sql, again)}),
  fresh AS MATERIALIZED (${waiting(sql, fresh)}),
  judged AS MATERIALIZED (
    SELECT candidate.*, way.*, clients.display_name, clients.first_name, clients.last_name,
      CASE
        WHEN is_out AND in_doubt OR way.kind IS NULL AND in_doubt THEN 'stranded'
        WHEN is_out THEN 'skipped'
        WHEN way.kind IS NULL THEN 'unreachable'
        ELSE 'claimed'
      END AS verdict
    FROM (SELECT * FROM again UNION ALL SELECT * FROM fresh) candidate
      JOIN clients ON clients.project_id = candidate.project_id AND clients.id = candidate.client_id
      CROSS JOIN LATERAL (
        SELECT clients.status = 'archived' AND clients.archived_at > frozen_at OR NOT clients.marketing_consent
          OR clients.suppressed OR clients.merged_into_client_id IS NOT NULL
      ) AS eligibility (is_out)
      LEFT JOIN LATERAL (
        SELECT route.kind, route.channel_id, route.provider_type, route.config, route.body, address.address
        FROM route, LATERAL (
          SELECT address FROM client_addresses
          WHERE project_id = candidate.project_id AND client_id = candidate.client_id AND channel_id = route.channel_id
          ORDER BY position LIMIT 1
        ) address
        WHERE route.project_id = candidate.project_id AND route.campaign_id = candidate.id
          AND CASE
            WHEN candidate.in_doubt
              THEN route.kind = candidate.was_on AND route.provider_type = candidate.was_with
                AND route.provider_type = ANY(${[...idempotent]}::text[])
            ELSE candidate.was_on = 'primary' OR route.kind = 'fallback'
          END
        ORDER BY route.rank LIMIT 1
      ) way ON true
  ),
  settled AS (
    UPDATE campaign_recipients AS recipient SET available_at = NULL,
      status = CASE verdict WHEN 'skipped' THEN 'skipped' WHEN 'unreachable' THEN 'failed' ELSE 'unknown' END
    FROM judged
    WHERE verdict <> 'claimed' AND recipient.project_id = judged.project_id
      AND recipient.audience_id = judged.audience_id AND recipient.position = judged.position
  ),
  ranked AS (
    SELECT *, row_number() OVER (PARTITION BY project_id, id ORDER BY available_at, position) AS rank
    FROM judged WHERE verdict = 'claimed'
  ),
  chosen AS MATERIALIZED (
    SELECT *, first_at + (rank - 1) * gap AS send_at FROM ranked WHERE rank <= quota ORDER BY rank LIMIT ${slots}::int
  ),
  claimed AS (
    UPDATE campaign_recipients AS recipient SET status = 'sending', route = chosen.kind, provider_type = chosen.provider_type,
      attempts = CASE WHEN chosen.kind = chosen.was_on THEN chosen.attempts ELSE 0 END + 1,
      available_at = send_at + ${leaseMillis}::float8 * interval '1 millisecond'
    FROM chosen
    WHERE recipient.project_id = chosen.project_id AND recipient.audience_id = chosen.audience_id
      AND recipient.position = chosen.position
    RETURNING recipient.project_id, recipient.audience_id, recipient.position, recipient.attempts
  ),
  moved_on AS (
    UPDATE campaigns SET next_send_at = last.at + last.gap
    FROM (SELECT project_id, id, max(send_at) AS at, max(gap) AS gap FROM chosen GROUP BY project_id, id) last
    WHERE campaigns.project_id = last.project_id AND campaigns.id = last.id
  )
  SELECT chosen.project_id AS "projectId", chosen.id AS "campaignId", chosen.audience_id AS "audienceId",
    chosen.position, client_id AS "clientId", kind AS route, claimed.attempts AS attempt, in_doubt AS "inDoubt",
    kind = 'primary' AND has_fallback AS "hasFallback", send_at AS "sendAt", channel_id AS "channelId",
    provider_type AS "providerType", config, address, body AS template,
    display_name AS "displayName", first_name AS "firstName", last_name AS "lastName", traceparent
  FROM chosen JOIN claimed USING (project_id, audience_id, position)
  ORDER BY send_at`
}

/** Returns what was leased to a process that died: the call may have been made. */
export const reclaim = (
  sql: SqlClient.SqlClient,
  now: Date,
  idempotent: ReadonlyArray<ProviderType>,
  attempts: number
) => sql`
  WITH lost AS MATERIALIZED (
    SELECT project_id, audience_id, position,
      attempts < ${attempts}::int AND coalesce(provider_type = ANY(${[...idempotent]}::text[]), false) AS repeatable
    FROM campaign_recipients
    WHERE status = 'sending' AND available_at <= ${now}::timestamptz
    FOR NO KEY UPDATE SKIP LOCKED
  )
  UPDATE campaign_recipients AS recipient SET in_doubt = true,
    status = CASE WHEN repeatable THEN 'pending' ELSE 'unknown' END,
    available_at = CASE WHEN repeatable THEN ${now}::timestamptz END
  FROM lost
  WHERE recipient.project_id = lost.project_id AND recipient.audience_id = lost.audience_id
    AND recipient.position = lost.position`
