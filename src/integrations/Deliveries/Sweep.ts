/**
 * Finds pending deliveries that no mark on their endpoint's row announces: their process ended between its commit and its
 * NOTIFY, or a claim wrote the mark from a snapshot older than their commit.
 */
import type { SqlClient } from "effect/sql"
import type { Endpoint } from "./Claim/Endpoints.ts"

/** Maximum number of endpoints that one statement looks at. */
export const endpointsPerSweep = 1_000

/** The start of a round. */
export const firstEndpoint = { projectId: "", installationId: "" }

/**
 * Looks at the next endpoints that have open deliveries, in the order of their key, and marks those that are due earlier
 * than their row says. The recursion jumps from one endpoint to the next in `deliveries_open`: a long queue costs no more
 * than a short one. Returns the last endpoint, or no row after the end of the round.
 */
export const sweep = (
  sql: SqlClient.SqlClient,
  after: { readonly projectId: string; readonly installationId: string }
) =>
  sql<Endpoint & { readonly seen: number }>`
  WITH RECURSIVE open AS (
    (
      SELECT project_id, installation_id, 1 AS place FROM deliveries
      WHERE finished_at IS NULL AND (project_id, installation_id) > (${after.projectId}, ${after.installationId})
      ORDER BY project_id, installation_id LIMIT 1
    )
    UNION ALL
    SELECT next.project_id, next.installation_id, place + 1 FROM open, LATERAL (
      SELECT project_id, installation_id FROM deliveries
      WHERE finished_at IS NULL AND (project_id, installation_id) > (open.project_id, open.installation_id)
      ORDER BY project_id, installation_id LIMIT 1
    ) next
    WHERE place < ${endpointsPerSweep}::int
  ),
  unmarked AS MATERIALIZED (
    SELECT health.project_id, health.installation_id, available_at, enabled FROM open, LATERAL (
      SELECT available_at FROM deliveries
      WHERE project_id = open.project_id AND installation_id = open.installation_id
        AND finished_at IS NULL AND status = 'pending'
      ORDER BY available_at, id LIMIT 1
    ) first, endpoint_health health JOIN webhooks USING (project_id, installation_id)
    WHERE health.project_id = open.project_id AND health.installation_id = open.installation_id AND CASE
      WHEN enabled THEN coalesce(next_due_at > greatest(available_at, now()), true) ELSE NOT discarding
    END
    FOR NO KEY UPDATE OF health SKIP LOCKED
  ),
  marked AS (
    UPDATE endpoint_health health SET
      next_due_at = CASE WHEN enabled THEN greatest(available_at, now()) END, discarding = NOT enabled
    FROM unmarked
    WHERE health.project_id = unmarked.project_id AND health.installation_id = unmarked.installation_id
  )
  SELECT project_id AS "projectId", installation_id AS "installationId", place AS seen FROM open ORDER BY place DESC LIMIT 1`
