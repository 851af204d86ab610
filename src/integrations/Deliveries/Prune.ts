/** Removes finished deliveries and events after their retention. */
import type { SqlClient } from "effect/sql"

/** Retention of finished deliveries, with the log of their attempts, and of events without deliveries (contract §10). */
export const retentionDays = 30

/** Removes a batch. Returns whether there may be more. */
export const prune = (sql: SqlClient.SqlClient, horizon: Date, batch: number) => sql<{ readonly more: boolean }>`
  WITH old AS (
    SELECT expired.* FROM projects, LATERAL (
      SELECT project_id, id FROM deliveries
      WHERE project_id = projects.project_id AND finished_at < ${horizon}::timestamptz
      ORDER BY finished_at LIMIT ${batch}::int FOR UPDATE SKIP LOCKED
    ) expired LIMIT ${batch}::int
  ),
  deliveries_gone AS (
    DELETE FROM deliveries USING old WHERE deliveries.project_id = old.project_id AND deliveries.id = old.id RETURNING 1
  ),
  orphaned AS (
    SELECT orphan.* FROM projects, LATERAL (
      SELECT project_id, id FROM events
      WHERE project_id = projects.project_id AND occurred_at < ${horizon}::timestamptz
        AND NOT EXISTS (
          SELECT FROM deliveries WHERE deliveries.project_id = events.project_id AND deliveries.event_id = events.id
        )
      ORDER BY occurred_at LIMIT ${batch}::int FOR UPDATE SKIP LOCKED
    ) orphan LIMIT ${batch}::int
  ),
  events_gone AS (
    DELETE FROM events USING orphaned WHERE events.project_id = orphaned.project_id AND events.id = orphaned.id RETURNING 1
  )
  SELECT (SELECT count(*) FROM deliveries_gone) = ${batch}::int OR (SELECT count(*) FROM events_gone) = ${batch}::int AS more`
