/** The read model of campaigns: what the API and the console show of each, with the progress of its recipients. */
import type { SqlClient, Statement } from "effect/sql"
import type { Campaign, Progress } from "../api/campaigns/Campaign.ts"
import type { ProjectId } from "../api/Ids.ts"
import { selected } from "../platform/Columns.ts"
import { type LookupStatement, plannedOnce } from "../platform/Lookups.ts"

export interface Listed extends Campaign {
  /** The number of recipients that it froze last; null without an audience. */
  readonly eligible: number | null
  readonly scheduledFor: string | null
}

/** The route of a kind, which is null until any part of it is bound. */
const route = (kind: "primary" | "fallback") => `CASE
  WHEN num_nonnulls(${kind}_template_id, ${kind}_channel_id) > 0 THEN json_build_object(
    'templateId', ${kind}_template_id, 'templateVersion', ${kind}_template_version, 'channelId', ${kind}_channel_id
  ) END`

const recipients = (condition: string) => `
  SELECT status FROM campaign_recipients
  WHERE campaign_recipients.project_id = campaigns.project_id AND campaign_recipients.audience_id = campaigns.audience_id
    AND campaign_recipients.status IN (${condition})`

/**
 * The recipients by state. Counted are those that are open and those that were not sent to, each by an index that has no others;
 * the rest of the frozen recipients was sent to. Once they are removed, the counts are those of before.
 */
const progress = `SELECT eligible, CASE
    WHEN final_progress IS NOT NULL THEN final_progress
    WHEN hasRun AND NOT recipients_removed THEN (
      SELECT json_build_object('recipients', eligible, 'pending', open, 'sent', eligible - open - failed - unknown - skipped,
        'failed', failed, 'unknown', unknown, 'skipped', skipped)
      FROM (
        SELECT count(*)::int AS open FROM (${recipients("'pending', 'sending'")}) open
      ) open, (
        SELECT (count(*) FILTER (WHERE status = 'failed'))::int AS failed,
          (count(*) FILTER (WHERE status = 'unknown'))::int AS unknown,
          (count(*) FILTER (WHERE status = 'skipped'))::int AS skipped
        FROM (${recipients("'failed', 'unknown', 'skipped'")}) unsent
      ) unsent
    )
    ELSE '${JSON.stringify({ recipients: 0, pending: 0, sent: 0, failed: 0, unknown: 0, skipped: 0 } satisfies Progress)}'::json
  END AS progress
  FROM (
    SELECT (
      SELECT eligible_count FROM audiences
      WHERE audiences.project_id = campaigns.project_id AND audiences.id = campaigns.audience_id
    ) AS eligible, started_at IS NOT NULL OR campaigns.status IN ('running', 'completed') OR paused_from = 'running' AS hasRun
  ) course`

const columns = `${selected(
  {
    id: "id",
    name: "name",
    status: "status",
    scheduledForLocal: "scheduled_for_local",
    sendsPerMinute: ["sends_per_minute", "integer"],
    startedAt: ["started_at", "timestamptz"],
    version: ["version", "integer"],
    createdAt: ["created_at", "timestamptz"],
    updatedAt: ["updated_at", "timestamptz"],
    scheduledFor: ["scheduled_for", "timestamptz"]
  },
  "campaigns"
)}, ${selected({
  endedAt: [
    "CASE WHEN campaigns.status IN ('completed', 'cancelled') THEN coalesce(ended_at, updated_at) END",
    "timestamptz"
  ]
})}, ${route("primary")} AS "primaryRoute", ${route("fallback")} AS "fallbackRoute", eligible, progress`

/** The progress of the row of `campaigns`, as JSON. */
export const progressOf = `(SELECT progress FROM (${progress}) counted)`

/** Reads campaigns of a project: `which` is a condition, an order and a limit. */
export const list = (sql: SqlClient.SqlClient, projectId: ProjectId, which: Statement.Fragment) => sql<Listed>`
  SELECT ${sql.literal(columns)} FROM campaigns, LATERAL (${sql.literal(progress)}) counted
  WHERE campaigns.project_id = ${projectId} ${which}`

/** Looks up campaigns. */
export const details =
  (sql: SqlClient.SqlClient): LookupStatement<Listed> =>
  (key) =>
    sql`
    SELECT ${sql.literal(columns)} FROM ${key}
      LEFT JOIN campaigns ON campaigns.project_id = key.project_id AND campaigns.id = key.id,
      LATERAL (${sql.literal(progress)}) counted
    WHERE ${sql.literal(plannedOnce)}
    ORDER BY ordinal`

/** Returns a campaign as callers see it. */
export const campaignOf = (campaign: Listed): Campaign => ({
  id: campaign.id,
  name: campaign.name,
  status: campaign.status,
  primaryRoute: campaign.primaryRoute,
  fallbackRoute: campaign.fallbackRoute,
  scheduledForLocal: campaign.scheduledForLocal,
  sendsPerMinute: campaign.sendsPerMinute,
  startedAt: campaign.startedAt,
  endedAt: campaign.endedAt,
  progress: campaign.progress,
  version: campaign.version,
  createdAt: campaign.createdAt,
  updatedAt: campaign.updatedAt
})
