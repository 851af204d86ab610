/** Removes finished deliveries and events after their retention. */
import { isAwake } from "../../../platform/Moves.ts"
import type { SqlClient } from "effect/sql"

/** Retention of finished deliveries with their attempt logs, and of events without deliveries (contract §10). */
export const retentionDays = 30

/** Maximum number of deliveries, and of events, that one statement removes. */
const pruneBatch = 1_000

/**
 * Removes a batch, oldest first in each project. Returns whether there may be more. SKIP LOCKED lets replicas share the work.
 * A locked row keeps its `ctid`, so the DELETE finds rows by `ctid`. PostgreSQL could plan a join by key as a read of the
 * whole table.
 */
export const prune = (sql: SqlClient.SqlClient, horizon: Date) => {
  const batch = sql.literal(String(pruneBatch))
  return sql<{ readonly more: boolean }>`
    WITH deliveries_gone AS (
      DELETE FROM deliveries WHERE ctid = ANY(ARRAY(
        SELECT expired.row FROM projects, LATERAL (
          SELECT ctid AS row FROM deliveries
          WHERE project_id = projects.project_id AND ${isAwake(sql, "project_id")} AND finished_at < ${horizon}::timestamptz
          ORDER BY finished_at LIMIT ${batch} FOR UPDATE SKIP LOCKED
        ) expired LIMIT ${batch}
      ))
      RETURNING 1
    ),
    events_gone AS (
      DELETE FROM events WHERE ctid = ANY(ARRAY(
        SELECT orphan.row FROM projects, LATERAL (
          SELECT ctid AS row FROM events
          WHERE project_id = projects.project_id AND ${isAwake(sql, "project_id")} AND occurred_at < ${horizon}::timestamptz
            AND NOT EXISTS (
              SELECT FROM deliveries WHERE deliveries.project_id = events.project_id AND deliveries.event_id = events.id
            )
          ORDER BY occurred_at LIMIT ${batch} FOR UPDATE SKIP LOCKED
        ) orphan LIMIT ${batch}
      ))
      RETURNING 1
    )
    SELECT (SELECT count(*) FROM deliveries_gone) = ${batch} OR (SELECT count(*) FROM events_gone) = ${batch} AS more`
}
