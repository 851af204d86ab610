/**
 * Claims recipients for the next window, within pace and limits. A campaign's row serializes its pace over all
 * processes: the claim that locks it takes the sends of the window, evenly spaced, and advances the time of the next
 * send; other claims skip the campaign.
 *
 * Lock order: campaigns, then recipients, each with SKIP LOCKED.
 */
import type { SqlClient, Statement } from "effect/sql"
import type { AudienceId, CampaignId, ChannelId, ClientId, ProjectId } from "../../api/Ids.ts"
import type { ProviderType } from "../../api/messaging/Messaging.ts"
import { limitTables } from "../../messaging/ChannelLimits.ts"
import type { Limits } from "../../platform/background/Slots.ts"
import { pacedCampaigns, routes, type Terms } from "./Claims/Campaigns.ts"
import { candidates, verdicts } from "./Claims/Candidates.ts"
import { after } from "./States.ts"

type Sql = SqlClient.SqlClient

/** A recipient to send to after `delayMillis`. */
export interface Claim {
  readonly projectId: ProjectId
  readonly campaignId: CampaignId
  readonly audienceId: AudienceId
  readonly position: number
  readonly clientId: ClientId
  readonly route: "primary" | "fallback"
  /** The number of the attempt on this route. Route and number are the fence of the lease. */
  readonly attempt: number
  /** Whether an earlier attempt may have been processed. */
  readonly inDoubt: boolean
  /** Whether another route remains when this one fails. */
  readonly hasFallback: boolean
  /** The time of the send by the database's clock. */
  readonly sendAt: Date
  /** Milliseconds from the claim to `sendAt`. */
  readonly delayMillis: number
  readonly channelId: ChannelId
  readonly providerType: ProviderType
  /** The sealed config. */
  readonly config: Uint8Array
  readonly address: string
  readonly template: string
  readonly displayName: string
  readonly firstName: string | null
  readonly lastName: string | null
  /** The trace of the command that scheduled the campaign. */
  readonly traceparent: string
}

export const claim = (sql: Sql, terms: Terms) => sql<Claim>`
  WITH ${limitTables(sql, terms.limits)},
  ${pacedCampaigns(sql, terms)},
  ${routes(sql)},
  ${candidates(sql, terms)},
  ${verdicts(sql, terms)},
  ${chosen(sql, terms.limits)},
  settled AS (
    UPDATE campaign_recipients AS recipient SET available_at = NULL,
      status = CASE verdict WHEN 'skipped' THEN ${after("skipped")} WHEN 'unreachable' THEN ${after("unreachable")}
        ELSE ${after("undetermined")} END
    FROM checked
    WHERE verdict <> 'claimed' AND recipient.project_id = checked.project_id
      AND recipient.audience_id = checked.audience_id AND recipient.position = checked.position
  ),
  claimed AS (
    UPDATE campaign_recipients AS recipient SET status = ${after("claimed")}, route = chosen.kind, provider_type = chosen.provider_type,
      attempts = CASE WHEN chosen.kind = chosen.last_route THEN chosen.attempts ELSE 0 END + 1,
      worker_id = ${terms.workerId === null ? null : String(terms.workerId)}::bigint,
      available_at = send_at + ${terms.leaseMillis}::float8 * interval '1 millisecond'
    FROM chosen
    WHERE recipient.project_id = chosen.project_id AND recipient.audience_id = chosen.audience_id
      AND recipient.position = chosen.position
    RETURNING recipient.project_id, recipient.audience_id, recipient.position, recipient.attempts
  ),
  advanced AS (
    UPDATE campaigns SET next_send_at = last.at + last.gap
    FROM (SELECT project_id, id, max(send_at) AS at, max(gap) AS gap FROM chosen GROUP BY project_id, id) last
    WHERE campaigns.project_id = last.project_id AND campaigns.id = last.id
  )
  SELECT chosen.project_id AS "projectId", chosen.id AS "campaignId", chosen.audience_id AS "audienceId",
    chosen.position, client_id AS "clientId", kind AS route, claimed.attempts AS attempt, in_doubt AS "inDoubt",
    kind = 'primary' AND has_fallback AS "hasFallback", send_at AS "sendAt",
    (extract(epoch FROM send_at - ${terms.now}) * 1000)::float8 AS "delayMillis", channel_id AS "channelId",
    provider_type AS "providerType", config, address, body AS template,
    display_name AS "displayName", first_name AS "firstName", last_name AS "lastName", traceparent
  FROM chosen JOIN claimed USING (project_id, audience_id, position)
  ORDER BY send_at`

/**
 * The recipients that the limits admit, with the time of each send: limited by the quota of their campaign, then by the
 * permits of their channel, then by those of their project. The first recipient of each project precedes the second of
 * any. `turn` has no gaps, so that a channel without permits does not reduce the pace.
 */
const chosen = (sql: Sql, { free, newKey, newTenant }: Limits) => sql`
  ranked AS (
    SELECT *, row_number() OVER (PARTITION BY project_id, id ORDER BY available_at, position) AS rank
    FROM checked WHERE verdict = 'claimed'
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
    WHERE channel_rank <= coalesce(free, ${newKey}::int)
  ),
  chosen AS MATERIALIZED (
    SELECT within_channel.*, first_at + (turn - 1) * gap AS send_at
    FROM within_channel LEFT JOIN project_limit USING (project_id)
    WHERE project_rank <= coalesce(free, ${newTenant}::int)
    ORDER BY project_rank, project_id LIMIT ${free}::int
  )`

/** Maximum number of leases that one statement ends. */
const reclaimBatch = 1_000

/**
 * Ends expired leases, and those of dead workers: the call may have been made. The recipient gets another attempt if
 * its provider is idempotent and attempts are left; otherwise its outcome is unknown.
 */
export const reclaim = (
  sql: Sql,
  {
    attempts,
    idempotent,
    isDead,
    now
  }: Pick<Terms, "now" | "idempotent"> & {
    /** Maximum number of attempts on a route. */
    readonly attempts: number
    /** Whether `worker_id` names a dead worker. */
    readonly isDead: Statement.Fragment
  }
) => sql`
  WITH lost AS MATERIALIZED (
    SELECT project_id, audience_id, position,
      attempts < ${attempts}::int AND coalesce(provider_type = ANY(${[...idempotent]}::text[]), false) AS repeatable
    FROM campaign_recipients
    WHERE status = 'sending' AND (available_at <= ${now} OR worker_id IS NOT NULL AND ${isDead})
    LIMIT ${reclaimBatch}::int
    FOR NO KEY UPDATE SKIP LOCKED
  )
  UPDATE campaign_recipients AS recipient SET in_doubt = true, worker_id = NULL,
    status = CASE WHEN repeatable THEN ${after("lost")} ELSE ${after("lost_final")} END,
    available_at = CASE WHEN repeatable THEN ${now} END
  FROM lost
  WHERE recipient.project_id = lost.project_id AND recipient.audience_id = lost.audience_id
    AND recipient.position = lost.position`
