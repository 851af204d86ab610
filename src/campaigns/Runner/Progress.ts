/** Starts due campaigns, and completes campaigns without pending or sending recipients. */
import type { SqlClient, Statement } from "effect/sql"
import { isOpen } from "./Recipients.ts"
import { isAwake } from "../../platform/Moves.ts"

/** Maximum delay of a start. After a longer delay the campaign is paused, and an operator decides. */
const latest = "6 hours"

/**
 * Starts and completes campaigns, and increments their versions. Returns whether a campaign is running or a recipient is
 * `sending`. The delay of a start counts from the scheduled time, or from the resume if that was later. `updated_at` never
 * decreases, even if the clock of the previous change was ahead.
 */
export const advance = (sql: SqlClient.SqlClient, now: Statement.Fragment) => sql<{ readonly busy: boolean }>`
  WITH due AS MATERIALIZED (
    SELECT project_id, id, greatest(scheduled_for, resumed_at) < ${now} - ${latest}::interval AS is_late
    FROM campaigns WHERE status = 'scheduled' AND scheduled_for <= ${now} AND ${isAwake(sql, "project_id")}
    FOR NO KEY UPDATE SKIP LOCKED
  ),
  started AS (
    UPDATE campaigns SET
      status = CASE WHEN is_late THEN 'paused' ELSE 'running' END,
      paused_from = CASE WHEN is_late THEN 'scheduled' END,
      version = version + 1, updated_at = greatest(updated_at, ${now})
    FROM due WHERE campaigns.project_id = due.project_id AND campaigns.id = due.id
    RETURNING campaigns.status
  ),
  finished AS MATERIALIZED (
    SELECT project_id, id FROM campaigns
    WHERE status = 'running' AND ${isAwake(sql, "project_id")} AND NOT EXISTS (
      SELECT FROM campaign_recipients AS recipient
      WHERE recipient.project_id = campaigns.project_id AND recipient.audience_id = campaigns.audience_id
        AND ${isOpen(sql, "recipient.status")}
    )
    FOR NO KEY UPDATE SKIP LOCKED
  ),
  completed AS (
    UPDATE campaigns SET status = 'completed', version = version + 1, updated_at = greatest(updated_at, ${now})
    FROM finished WHERE campaigns.project_id = finished.project_id AND campaigns.id = finished.id
    RETURNING campaigns.id
  )
  SELECT EXISTS (SELECT FROM started WHERE status = 'running')
    OR EXISTS (SELECT FROM campaigns WHERE status = 'running')
    OR coalesce((SELECT true FROM campaign_recipients WHERE status = 'sending' LIMIT 1), false) AS busy`
