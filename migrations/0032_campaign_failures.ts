/** Why recipients of campaigns failed, how often they are retried, and the time zone of a campaign's schedule. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // The zone in which the schedule was read. Null for a draft, and if an earlier version has scheduled the campaign.
  yield* sql`ALTER TABLE campaigns ADD COLUMN time_zone text`
  yield* sql`
    ALTER TABLE campaign_recipients
      -- Why the last message was refused, or why there was none.
      ADD COLUMN error_code text COLLATE "C",
      -- How often the recipient was retried after it had failed.
      ADD COLUMN retries smallint NOT NULL DEFAULT 0`
  yield* sql`
    ALTER TABLE audiences
      -- The failed recipients by error code.
      ADD COLUMN failures jsonb NOT NULL DEFAULT '{}',
      -- The largest number of retries of a recipient.
      ADD COLUMN retries smallint NOT NULL DEFAULT 0`

  // As before, and the failed recipients by error code. An earlier version stores no code.
  yield* sql`
    CREATE OR REPLACE FUNCTION count_recipients() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
      change record;
    BEGIN
      FOR change IN
        SELECT project_id, audience_id,
          coalesce(sum(number) FILTER (WHERE status = 'sent'), 0) AS sent,
          coalesce(sum(number) FILTER (WHERE status = 'failed'), 0) AS failed,
          coalesce(sum(number) FILTER (WHERE status = 'unknown'), 0) AS unknown,
          coalesce(sum(number) FILTER (WHERE status = 'skipped'), 0) AS skipped,
          bool_or(status = 'failed') AS has_failures
        FROM (
          SELECT project_id, audience_id, status, -1 AS number FROM moved_from
          UNION ALL SELECT project_id, audience_id, status, 1 FROM moved_to
        ) moved
        WHERE status NOT IN ('pending', 'sending')
        GROUP BY project_id, audience_id ORDER BY project_id, audience_id
      LOOP
        UPDATE audiences SET
          sent_count = sent_count + change.sent, failed_count = failed_count + change.failed,
          unknown_count = unknown_count + change.unknown, skipped_count = skipped_count + change.skipped,
          failures = CASE WHEN NOT change.has_failures THEN failures ELSE (
            SELECT coalesce(jsonb_object_agg(code, number), '{}') FROM (
              SELECT code, sum(number) AS number FROM (
                SELECT key AS code, value::integer AS number FROM jsonb_each_text(failures)
                UNION ALL
                SELECT coalesce(error_code, 'unknown'), -1 FROM moved_from
                WHERE project_id = change.project_id AND audience_id = change.audience_id AND status = 'failed'
                UNION ALL
                SELECT coalesce(error_code, 'unknown'), 1 FROM moved_to
                WHERE project_id = change.project_id AND audience_id = change.audience_id AND status = 'failed'
              ) counted GROUP BY code HAVING sum(number) > 0
            ) by_code
          ) END
        WHERE project_id = change.project_id AND id = change.audience_id;
      END LOOP;
      RETURN NULL;
    END
    $$`
})
