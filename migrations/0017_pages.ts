/** Sets the event type of older deliveries, and adds the indexes for lists of campaigns and deliveries. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** Maximum number of deliveries whose type one statement sets. */
const batch = 5_000

interface Place {
  readonly projectId: string
  readonly id: string
  readonly skipped: number
}

/** Sets the type of the next deliveries without one. Locked rows are skipped, so that no two statements wait for each other. */
const setTypes = (after: Pick<Place, "id" | "projectId">) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql<Place>`
      WITH untyped AS MATERIALIZED (
        SELECT project_id, id, event_id FROM deliveries
        WHERE (project_id, id) > (${after.projectId}, ${after.id}) AND event_type IS NULL
        ORDER BY project_id, id LIMIT ${batch}::int
      ),
      locked AS MATERIALIZED (
        SELECT deliveries.project_id, deliveries.id, untyped.event_id FROM deliveries JOIN untyped USING (project_id, id)
        FOR NO KEY UPDATE OF deliveries SKIP LOCKED
      ),
      typed AS (
        UPDATE deliveries SET event_type = (
          SELECT type FROM events WHERE events.project_id = locked.project_id AND events.id = locked.event_id
        )
        FROM locked WHERE deliveries.project_id = locked.project_id AND deliveries.id = locked.id
      )
      SELECT project_id AS "projectId", id, ((SELECT count(*) FROM untyped) - (SELECT count(*) FROM locked))::int AS skipped
      FROM untyped ORDER BY project_id DESC, id DESC LIMIT 1`
  )

/** Sets the type of all older deliveries, in rounds until none was skipped. */
const setAllTypes = Effect.gen(function* () {
  let skipped = 0
  do {
    skipped = 0
    let [last] = yield* setTypes({ projectId: "", id: "" })
    while (last !== undefined) {
      skipped += last.skipped
      const next: ReadonlyArray<Place> = yield* setTypes(last)
      last = next[0]
    }
  } while (skipped > 0)
})

export default [
  setAllTypes,
  // The expression is the state that the API shows. A claim changes none of its columns, and so writes only the row (HOT).
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS deliveries_by_state ON deliveries (project_id, installation_id, (
        CASE
          WHEN finished_at IS NULL THEN 'pending'
          WHEN coalesce(attempt_log -> -1 ->> 'statusCode', '') LIKE '2__' THEN 'delivered'
          ELSE 'dead'
        END
      ), event_type, id)`
  ),
  // For the progress of a campaign. The index is small, because few recipients end in these states.
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS campaign_recipients_unsent
      ON campaign_recipients (project_id, audience_id, status) WHERE status IN ('failed', 'unknown', 'skipped')`
  ),
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS campaigns_by_age ON campaigns (project_id, created_at DESC, id DESC)
      WHERE created_at > '-infinity'`
  ),
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      CREATE INDEX CONCURRENTLY IF NOT EXISTS campaigns_by_status
      ON campaigns (project_id, status, created_at DESC, id DESC) WHERE created_at > '-infinity'`
  )
]
