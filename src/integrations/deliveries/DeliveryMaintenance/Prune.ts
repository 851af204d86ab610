/** Removes old events without a delivery. */
import { isAwake } from "../../../platform/Moves.ts"
import type { SqlClient } from "effect/sql"

/** Retention of finished deliveries with their attempt logs, and of events without deliveries (contract §10). */
export const retentionDays = 30

/** Maximum number of events that one statement reads. */
export const eventsPerPrune = 2_000

/** A round reads all old events in several statements. This event was read last. */
export interface LastEvent {
  readonly projectId: string
  readonly occurredAt: Date
}

/** The position at which a round starts, before all events. */
export const firstEvent: LastEvent = { projectId: "", occurredAt: new Date(0) }

/**
 * Reads the next events before `horizon`, by project and time, and removes the events without a delivery. Returns the last event
 * that was read, or no row after the end of the round. A round also reads events that stay: an endpoint that was away for days
 * leaves a million old events whose deliveries were finished later and are still kept. If several events have the same time, a
 * round may miss some of them. The next round finds these.
 */
export const pruneEvents = (sql: SqlClient.SqlClient, horizon: Date, after: LastEvent) => {
  const most = sql.literal(String(eventsPerPrune))
  return sql<LastEvent & { readonly seen: number }>`
    WITH old AS MATERIALIZED (
      SELECT event.* FROM (
        SELECT project_id FROM projects WHERE project_id >= ${after.projectId} ORDER BY project_id
      ) project, LATERAL (
        SELECT ctid AS row, project_id, id, occurred_at FROM events
        WHERE project_id = project.project_id AND ${isAwake(sql, "project_id")} AND occurred_at < ${horizon}::timestamptz
          AND occurred_at > CASE WHEN project.project_id = ${after.projectId} THEN ${after.occurredAt}::timestamptz ELSE '-infinity' END
        ORDER BY occurred_at LIMIT ${most}
      ) event LIMIT ${most}
    ),
    gone AS (
      DELETE FROM events WHERE ctid = ANY(ARRAY(
        SELECT orphan.row FROM old, LATERAL (
          SELECT ctid AS row FROM events
          WHERE ctid = old.row AND NOT EXISTS (
            SELECT FROM deliveries WHERE deliveries.project_id = old.project_id AND deliveries.event_id = old.id
          )
          FOR UPDATE SKIP LOCKED
        ) orphan
      ))
    )
    SELECT project_id AS "projectId", occurred_at AS "occurredAt", count(*) OVER ()::int AS seen
    FROM old ORDER BY project_id DESC, occurred_at DESC LIMIT 1`
}
