/** Campaigns with the progress of their recipients, as the API and the console show them. */
import { Struct } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import type { Campaign, Progress } from "../api/campaigns/Campaign.ts"
import type { ProjectId } from "../api/schema/Ids.ts"
import { selectList } from "../platform/database/Columns.ts"
import { type LookupStatement, plannedOnce } from "../platform/database/Lookups.ts"

export interface Listed extends Campaign {
  /** The number of recipients in the audience; null without an audience. */
  readonly eligible: number | null
  readonly scheduledFor: string | null
}

/** SQL for the primary or fallback route; null if the route has neither a template nor a channel. */
const route = (kind: "primary" | "fallback") => `CASE
  WHEN num_nonnulls(${kind}_template_id, ${kind}_channel_id) > 0 THEN json_build_object(
    'templateId', ${kind}_template_id, 'templateVersion', ${kind}_template_version, 'channelId', ${kind}_channel_id
  ) END`

/**
 * The numbers of recipients by state; zeros until the campaign runs. The trigger `count_recipients()` updates the counts of the
 * audience.
 */
const progress = `CASE WHEN hasRun AND sent_count IS NOT NULL THEN json_build_object('recipients', eligible_count,
    'pending', eligible_count - sent_count - failed_count - unknown_count - skipped_count,
    'sent', sent_count, 'failed', failed_count, 'unknown', unknown_count, 'skipped', skipped_count)
  ELSE '${JSON.stringify({ recipients: 0, pending: 0, sent: 0, failed: 0, unknown: 0, skipped: 0 } satisfies Progress)}'::json END`

const audience = `
  LEFT JOIN LATERAL (
    SELECT eligible_count, sent_count, failed_count, unknown_count, skipped_count FROM audiences
    WHERE audiences.project_id = campaigns.project_id AND audiences.id = campaigns.audience_id OFFSET 0
  ) audience ON true
  CROSS JOIN LATERAL (
    SELECT campaigns.started_at IS NOT NULL OR campaigns.status IN ('running', 'completed')
      OR campaigns.paused_from = 'running' AS hasRun
  ) course`

/** The columns of a campaign in the order of the contract, then the columns that only operators see. */
const columns = `${selectList({ id: "id", name: "name", status: "status" }, "campaigns")},
  ${route("primary")} AS "primaryRoute", ${route("fallback")} AS "fallbackRoute", ${selectList(
    {
      scheduledForLocal: "scheduled_for_local",
      sendsPerMinute: ["sends_per_minute", "integer"],
      startedAt: ["started_at", "timestamptz"]
    },
    "campaigns"
  )}, ${selectList({
    endedAt: [
      "CASE WHEN campaigns.status IN ('completed', 'cancelled') THEN coalesce(ended_at, updated_at) END",
      "timestamptz"
    ]
  })}, ${progress} AS progress, ${selectList(
    {
      version: ["version", "integer"],
      createdAt: ["created_at", "timestamptz"],
      updatedAt: ["updated_at", "timestamptz"],
      scheduledFor: ["scheduled_for", "timestamptz"]
    },
    "campaigns"
  )}, eligible_count AS eligible`

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

export const campaignOf = (listed: Listed): Campaign => Struct.omit(listed, ["eligible", "scheduledFor"])
