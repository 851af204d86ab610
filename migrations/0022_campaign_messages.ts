/**
 * Messages of campaigns: a message belongs to a conversation, or to a recipient of a campaign. An audience has the counts of
 * its recipients by final state.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // `available_at` of a campaign's message is null between two attempts: its recipient has the time of the next attempt.
  yield* sql`
    ALTER TABLE messages ALTER COLUMN conversation_id DROP NOT NULL,
      ADD COLUMN campaign_id text COLLATE "C",
      ADD COLUMN audience_id text COLLATE "C",
      ADD COLUMN position integer`

  // The id of the last message to the recipient. Null if none was sent, or if the service sent it before this migration.
  yield* sql`ALTER TABLE campaign_recipients ADD COLUMN message_id text COLLATE "C"`

  // Null for an older audience until the next migration has counted its recipients.
  yield* sql`
    ALTER TABLE audiences ADD COLUMN sent_count integer, ADD COLUMN failed_count integer,
      ADD COLUMN unknown_count integer, ADD COLUMN skipped_count integer`
  yield* sql`
    ALTER TABLE audiences ALTER COLUMN sent_count SET DEFAULT 0, ALTER COLUMN failed_count SET DEFAULT 0,
      ALTER COLUMN unknown_count SET DEFAULT 0, ALTER COLUMN skipped_count SET DEFAULT 0`

  // The trigger counts the recipients whose state a statement changes, even if an earlier version or an operator runs it.
  // The audiences are locked last and in order, so there is no deadlock. A removed recipient stays counted.
  yield* sql`
    CREATE FUNCTION count_recipients() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
      change record;
    BEGIN
      FOR change IN
        SELECT project_id, audience_id,
          coalesce(sum(number) FILTER (WHERE status = 'sent'), 0) AS sent,
          coalesce(sum(number) FILTER (WHERE status = 'failed'), 0) AS failed,
          coalesce(sum(number) FILTER (WHERE status = 'unknown'), 0) AS unknown,
          coalesce(sum(number) FILTER (WHERE status = 'skipped'), 0) AS skipped
        FROM (
          SELECT project_id, audience_id, status, -1 AS number FROM moved_from
          UNION ALL SELECT project_id, audience_id, status, 1 FROM moved_to
        ) moved
        WHERE status NOT IN ('pending', 'sending')
        GROUP BY project_id, audience_id ORDER BY project_id, audience_id
      LOOP
        UPDATE audiences SET
          sent_count = sent_count + change.sent, failed_count = failed_count + change.failed,
          unknown_count = unknown_count + change.unknown, skipped_count = skipped_count + change.skipped
        WHERE project_id = change.project_id AND id = change.audience_id;
      END LOOP;
      RETURN NULL;
    END
    $$`
  yield* sql`
    CREATE TRIGGER recipients_are_counted AFTER UPDATE ON campaign_recipients
    REFERENCING OLD TABLE AS moved_from NEW TABLE AS moved_to FOR EACH STATEMENT EXECUTE FUNCTION count_recipients()`

  // The two triggers below guard against processes of the earlier version that still run. The earlier version leases a
  // recipient itself (`available_at`), and does not know that an earlier attempt has a message.
  yield* sql`
    CREATE FUNCTION leave_recipient() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$`
  yield* sql`
    CREATE TRIGGER recipients_with_messages BEFORE UPDATE ON campaign_recipients FOR EACH ROW
    WHEN (OLD.message_id IS NOT NULL AND OLD.status = 'pending' AND NEW.status = 'sending' AND NEW.available_at IS NOT NULL)
    EXECUTE FUNCTION leave_recipient()`
  // The earlier version queues the next attempt of every message whose lease has ended.
  yield* sql`
    CREATE FUNCTION leave_queue() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      NEW.available_at := NULL;
      RETURN NEW;
    END
    $$`
  yield* sql`
    CREATE TRIGGER messages_of_campaigns BEFORE UPDATE ON messages FOR EACH ROW
    WHEN (NEW.campaign_id IS NOT NULL AND NOT NEW.attempting AND NEW.available_at IS NOT NULL)
    EXECUTE FUNCTION leave_queue()`
})
