/** Adds what the API shows of webhooks, deliveries and campaigns. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // Webhooks that exist already get the time of this migration.
  yield* sql`ALTER TABLE webhooks ADD COLUMN updated_at timestamptz(3) NOT NULL DEFAULT 'now'`
  yield* sql`ALTER TABLE webhooks ALTER COLUMN updated_at SET DEFAULT now()`

  // {at, statusCode, errorCode, responseBody} of the last attempt that failed. It stays after a success.
  yield* sql`ALTER TABLE endpoint_health ADD COLUMN last_failure json`

  // The type of the event, for lists of deliveries of one type.
  yield* sql`ALTER TABLE deliveries ADD COLUMN event_type text`
  // For processes of the earlier version, which do not set the type.
  yield* sql`
    CREATE FUNCTION set_event_type() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
    BEGIN
      NEW.event_type := (SELECT type FROM events WHERE project_id = NEW.project_id AND id = NEW.event_id);
      RETURN NEW;
    END $$`
  yield* sql`
    CREATE TRIGGER deliveries_have_a_type BEFORE INSERT ON deliveries
    FOR EACH ROW WHEN (NEW.event_type IS NULL) EXECUTE FUNCTION set_event_type()`

  // The local time in the command that scheduled the campaign. Null for a draft, and if it was scheduled for now.
  yield* sql`ALTER TABLE campaigns ADD COLUMN scheduled_for_local text`
  yield* sql`ALTER TABLE campaigns ADD COLUMN started_at timestamptz(3)`
  yield* sql`ALTER TABLE campaigns ADD COLUMN ended_at timestamptz(3)`
  // The counts of recipients by state. Set when the recipients are removed.
  yield* sql`ALTER TABLE campaigns ADD COLUMN final_progress json`
  // A trigger sets the times of start and end for every statement that starts or ends a campaign, even of an earlier version.
  yield* sql`
    CREATE FUNCTION record_course() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      IF NEW.status = 'running' THEN
        NEW.started_at := coalesce(OLD.started_at, NEW.updated_at);
      ELSIF NEW.status IN ('completed', 'cancelled') THEN
        NEW.ended_at := NEW.updated_at;
      END IF;
      RETURN NEW;
    END $$`
  yield* sql`
    CREATE TRIGGER campaigns_record_their_course BEFORE UPDATE ON campaigns
    FOR EACH ROW WHEN (NEW.status <> OLD.status) EXECUTE FUNCTION record_course()`
})
