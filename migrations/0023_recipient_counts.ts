/** Counts recipients by final state, for older audiences. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

interface Place {
  readonly projectId: string
  readonly id: string
}

/**
 * Counts the recipients of the next campaign without counts. A statement of its own locks the audience first. The count then
 * sees every change whose trigger has run before, and waits for no other lock. The counts of removed recipients are in
 * `final_progress`. Returns undefined after the last campaign.
 */
const countNext = (after: Place) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    return yield* sql.withTransaction(
      Effect.gen(function* () {
        const [next] = yield* sql<Place>`
          SELECT campaigns.project_id AS "projectId", campaigns.id FROM campaigns
            JOIN audiences ON audiences.project_id = campaigns.project_id AND audiences.id = campaigns.audience_id
          WHERE (campaigns.project_id, campaigns.id) > (${after.projectId}, ${after.id}) AND sent_count IS NULL
          ORDER BY campaigns.project_id, campaigns.id LIMIT 1 FOR NO KEY UPDATE OF audiences`
        if (next === undefined) return undefined
        yield* sql`
          WITH campaign AS (
            SELECT * FROM campaigns WHERE project_id = ${next.projectId} AND id = ${next.id}
          ),
          counted AS (
            SELECT audience_id, (final_progress ->> 'sent')::int AS sent, (final_progress ->> 'failed')::int AS failed,
              (final_progress ->> 'unknown')::int AS unknown, (final_progress ->> 'skipped')::int AS skipped
            FROM campaign WHERE final_progress IS NOT NULL
            UNION ALL
            SELECT audience_id, (count(*) FILTER (WHERE recipient.status = 'sent'))::int,
              (count(*) FILTER (WHERE recipient.status = 'failed'))::int,
              (count(*) FILTER (WHERE recipient.status = 'unknown'))::int,
              (count(*) FILTER (WHERE recipient.status = 'skipped'))::int
            FROM campaign LEFT JOIN campaign_recipients AS recipient USING (project_id, audience_id)
            WHERE final_progress IS NULL AND NOT recipients_removed
            GROUP BY audience_id
          )
          UPDATE audiences SET sent_count = sent, failed_count = failed, unknown_count = unknown, skipped_count = skipped
          FROM counted WHERE audiences.project_id = ${next.projectId} AND audiences.id = counted.audience_id`
        return next
      })
    )
  })

/** Counts the recipients of all older campaigns, each in a transaction of its own. */
const countAll = Effect.gen(function* () {
  let next = yield* countNext({ projectId: "", id: "" })
  while (next !== undefined) next = yield* countNext(next)
})

export default [countAll]
