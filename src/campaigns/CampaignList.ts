/** What callers and operators read of campaigns: a campaign with its progress, its audience, and its failed recipients. */
import { Effect, Struct } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import type { Audience } from "../api/campaigns/Audience.ts"
import { type Campaign, failuresMax, type Progress } from "../api/campaigns/Campaign.ts"
import type { CampaignId, ProjectId } from "../api/schema/Ids.ts"
import { pageOf, type Range } from "../operating/Lists.ts"
import { selectList } from "../sql/Columns.ts"
import { type LookupStatement, plannedOnce } from "../sql/Lookups.ts"

export interface Listed extends Campaign {
  /** The number of recipients in the audience; null without an audience. */
  readonly eligible: number | null
}

/** SQL for the primary or fallback route; null if the route has neither a template nor a channel. */
const route = (kind: "primary" | "fallback") => `CASE
  WHEN num_nonnulls(${kind}_template_id, ${kind}_channel_id) > 0 THEN json_build_object(
    'templateId', ${kind}_template_id, 'templateVersion', ${kind}_template_version, 'channelId', ${kind}_channel_id
  ) END`

const noProgress: Progress = { recipients: 0, pending: 0, sent: 0, failed: 0, unknown: 0, skipped: 0, failures: [] }

/**
 * The numbers of recipients by state; zeros until the campaign runs. The trigger `count_recipients()` updates the counts of the
 * audience.
 */
const progress = `CASE WHEN hasRun AND sent_count IS NOT NULL THEN json_build_object('recipients', eligible_count,
    'pending', eligible_count - sent_count - failed_count - unknown_count - skipped_count,
    'sent', sent_count, 'failed', failed_count, 'unknown', unknown_count, 'skipped', skipped_count, 'failures', (
      SELECT coalesce(json_agg(json_build_object('errorCode', code, 'count', number) ORDER BY number DESC, code), '[]') FROM (
        SELECT key AS code, value::int AS number FROM jsonb_each_text(failures) ORDER BY value::int DESC, key LIMIT ${failuresMax}
      ) most
    ))
  ELSE '${JSON.stringify(noProgress)}'::json END`

/** SQL for the zone of the schedule. Campaigns of an earlier version have none, and were read in the zone of the project. */
const timeZone = `coalesce(campaigns.time_zone, CASE WHEN campaigns.scheduled_for IS NOT NULL THEN (
  SELECT time_zone FROM projects WHERE projects.project_id = campaigns.project_id
) END)`

const audience = `
  LEFT JOIN LATERAL (
    SELECT eligible_count, sent_count, failed_count, unknown_count, skipped_count, failures FROM audiences
    WHERE audiences.project_id = campaigns.project_id AND audiences.id = campaigns.audience_id OFFSET 0
  ) audience ON true
  CROSS JOIN LATERAL (
    SELECT campaigns.started_at IS NOT NULL OR campaigns.status IN ('running', 'completed')
      OR campaigns.paused_from = 'running' AS hasRun
  ) course`

/** The columns of a campaign in the order of the contract, then the column that only operators see. */
const columns = selectList({
  id: "campaigns.id",
  name: "campaigns.name",
  status: "campaigns.status",
  primaryRoute: route("primary"),
  fallbackRoute: route("fallback"),
  scheduledForLocal: "campaigns.scheduled_for_local",
  timeZone,
  scheduledAt: ["campaigns.scheduled_for", "timestamptz"],
  sendsPerMinute: "campaigns.sends_per_minute",
  startedAt: ["campaigns.started_at", "timestamptz"],
  endedAt: [
    "CASE WHEN campaigns.status IN ('completed', 'cancelled') THEN coalesce(ended_at, updated_at) END",
    "timestamptz"
  ],
  progress,
  version: "campaigns.version",
  createdAt: ["campaigns.created_at", "timestamptz"],
  updatedAt: ["campaigns.updated_at", "timestamptz"],
  eligible: "eligible_count"
})

/** Reads campaigns of a project: `which` is a condition, an order and a limit. */
export const list = (sql: SqlClient.SqlClient, projectId: ProjectId, which: Statement.Fragment) => sql<Listed>`
  SELECT ${sql.literal(columns)} FROM campaigns ${sql.literal(audience)}
  WHERE campaigns.project_id = ${projectId} ${which}`

export const details =
  (sql: SqlClient.SqlClient): LookupStatement<Listed> =>
  (key) =>
    sql`
    SELECT ${sql.literal(columns)} FROM ${key}
      LEFT JOIN campaigns ON campaigns.project_id = key.project_id AND campaigns.id = key.id
      ${sql.literal(audience)}
    WHERE ${sql.literal(plannedOnce)}
    ORDER BY ordinal`

interface Failed {
  readonly position: number
  readonly clientId: string
  readonly client: string | null
  readonly errorCode: string
  readonly messageId: string | null
  readonly retries: number
}

/**
 * Lists the failed recipients of an audience by error code, then in the order of the audience. Reads the index
 * `campaign_recipients_failed`. `after` is the `position` of the last recipient of the page before.
 */
export const listFailed = (
  sql: SqlClient.SqlClient,
  projectId: ProjectId,
  campaignId: string,
  errorCode: string | null,
  { after, limit }: Range
) => {
  const code = sql.literal("coalesce(error_code, 'unknown')")
  const last = Number(after)
  const later =
    after === null || !Number.isInteger(last)
      ? sql.literal("")
      : sql`AND (${code}, position) > ((
          SELECT ${code} FROM campaign_recipients
          WHERE project_id = ${projectId} AND audience_id = audience.id AND position = ${last}::int
        ), ${last}::int)`
  return sql<Failed>`
    SELECT position, client_id AS "clientId", error_code AS "errorCode", message_id AS "messageId", retries, (
        SELECT display_name FROM clients WHERE project_id = ${projectId} AND id = client_id
      ) AS client
    FROM (SELECT audience_id AS id FROM campaigns WHERE project_id = ${projectId} AND id = ${campaignId}) audience, LATERAL (
      SELECT position, client_id, ${code} AS error_code, message_id, retries FROM campaign_recipients
      WHERE project_id = ${projectId} AND audience_id = audience.id AND status = 'failed'
        ${errorCode === null ? sql.literal("") : sql`AND ${code} = ${errorCode}`} ${later}
      ORDER BY ${code}, position LIMIT ${limit + 1}::int
    ) failed
    ORDER BY error_code, position`.pipe(Effect.map((rows) => pageOf(rows, limit, ({ position }) => String(position))))
}

/** Leaves out what only operators see. */
export const campaignOf = (listed: Listed): Campaign => Struct.omit(listed, ["eligible"])

/** Reads the version of a campaign and the counts of its audience. */
export const readAudience = (sql: SqlClient.SqlClient, projectId: ProjectId, id: CampaignId) => sql<{
  readonly version: number
  readonly audience: Audience | null
}>`
  SELECT campaigns.version,
    CASE WHEN audiences.id IS NOT NULL THEN json_build_object(
      'filter', filter, 'candidateCount', candidate_count, 'eligibleCount', eligible_count,
      'exclusions', json_build_object(
        'consent_not_granted', consent_not_granted, 'suppressed', suppressed, 'merged', merged,
        'filter_mismatch', filter_mismatch, 'channel_unavailable', channel_unavailable, 'duplicate', duplicate
      )
    ) END AS audience
  FROM campaigns LEFT JOIN audiences
    ON audiences.project_id = campaigns.project_id AND audiences.id = campaigns.audience_id
  WHERE campaigns.project_id = ${projectId} AND campaigns.id = ${id}`
