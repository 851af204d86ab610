/** Campaigns: segments, templates, campaigns, and the audiences that are frozen for them. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`
    CREATE TABLE segments (
      project_id    text COLLATE "C" NOT NULL REFERENCES projects,
      id            text COLLATE "C" NOT NULL,
      name          text NOT NULL,
      description   text,
      -- Number of the segment's rows in segment_clients, so that a page of segments counts no rows.
      contact_count integer NOT NULL,
      created_at    timestamptz(3) NOT NULL,
      updated_at    timestamptz(3) NOT NULL,
      PRIMARY KEY (project_id, id)
    )`
  yield* sql`CREATE INDEX segments_by_age ON segments (project_id, created_at DESC, id DESC)`
  yield* sql`
    CREATE TABLE segment_clients (
      project_id text COLLATE "C" NOT NULL REFERENCES projects,
      segment_id text COLLATE "C" NOT NULL,
      client_id  text COLLATE "C" NOT NULL,
      -- From 0, in an arbitrary order.
      position   integer NOT NULL,
      PRIMARY KEY (project_id, segment_id, client_id),
      FOREIGN KEY (project_id, segment_id) REFERENCES segments (project_id, id),
      FOREIGN KEY (project_id, client_id) REFERENCES clients (project_id, id)
    )`

  // `version` is a bigint, because a request may name any version up to 2^53.
  yield* sql`
    CREATE TABLE templates (
      project_id text COLLATE "C" NOT NULL REFERENCES projects,
      id         text COLLATE "C" NOT NULL,
      version    bigint NOT NULL,
      name       text NOT NULL,
      body       text NOT NULL,
      PRIMARY KEY (project_id, id, version)
    )`

  // The result of a freeze. An audience stays after its campaign, until its recipients are pruned, so it refers to no campaign.
  yield* sql`
    CREATE TABLE audiences (
      project_id           text COLLATE "C" NOT NULL REFERENCES projects,
      id                   text COLLATE "C" NOT NULL,
      -- The filter as in answers: json, unlike jsonb, keeps the order of the members.
      filter               json NOT NULL,
      candidate_count      integer NOT NULL,
      eligible_count       integer NOT NULL,
      merged               integer NOT NULL,
      filter_mismatch      integer NOT NULL,
      consent_not_granted  integer NOT NULL,
      suppressed           integer NOT NULL,
      channel_unavailable  integer NOT NULL,
      duplicate            integer NOT NULL,
      created_at           timestamptz(3) NOT NULL,
      -- Time since which no campaign refers to the audience.
      abandoned_at         timestamptz(3),
      -- Recipients by final state, counted by a trigger. A removed recipient stays counted.
      sent_count           integer DEFAULT 0,
      failed_count         integer DEFAULT 0,
      unknown_count        integer DEFAULT 0,
      skipped_count        integer DEFAULT 0,
      PRIMARY KEY (project_id, id),
      CHECK (candidate_count = eligible_count + merged + filter_mismatch + consent_not_granted + suppressed
        + channel_unavailable + duplicate)
    )`
  yield* sql`CREATE INDEX audiences_abandoned ON audiences (project_id, id) WHERE abandoned_at IS NOT NULL`

  yield* sql`
    CREATE TABLE campaigns (
      project_id                text COLLATE "C" NOT NULL REFERENCES projects,
      id                        text COLLATE "C" NOT NULL,
      name                      text NOT NULL,
      status                    text COLLATE "C" NOT NULL DEFAULT 'draft'
        CHECK (status IN ('draft', 'scheduled', 'running', 'paused', 'completed', 'cancelled')),
      version                   integer NOT NULL DEFAULT 1,
      primary_template_id       text COLLATE "C",
      primary_template_version  bigint,
      primary_channel_id        text COLLATE "C",
      fallback_template_id      text COLLATE "C",
      fallback_template_version bigint,
      fallback_channel_id       text COLLATE "C",
      audience_id               text COLLATE "C",
      scheduled_for             timestamptz(3),
      sends_per_minute          integer CHECK (sends_per_minute BETWEEN 1 AND 60000),
      paused_from               text CHECK (paused_from IN ('scheduled', 'running')),
      resumed_at                timestamptz(3),
      -- While it runs: the time at which the next recipient is due.
      next_send_at              timestamptz(3),
      -- Span of the command that scheduled or resumed the campaign (W3C Trace Context). The sends belong to this span.
      traceparent               text NOT NULL DEFAULT '',
      created_at                timestamptz(3) NOT NULL,
      updated_at                timestamptz(3) NOT NULL,
      -- Set when the recipients of the campaign have been removed, long after its end.
      recipients_removed        boolean NOT NULL DEFAULT false,
      -- The local time in the command that scheduled the campaign. Null for a draft, and if it was scheduled for now.
      scheduled_for_local       text,
      started_at                timestamptz(3),
      ended_at                  timestamptz(3),
      -- The counts of recipients by state. Set when the recipients are removed.
      final_progress            json,
      PRIMARY KEY (project_id, id),
      FOREIGN KEY (project_id, primary_template_id, primary_template_version)
        REFERENCES templates (project_id, id, version),
      FOREIGN KEY (project_id, primary_channel_id) REFERENCES channels (project_id, id),
      FOREIGN KEY (project_id, fallback_template_id, fallback_template_version)
        REFERENCES templates (project_id, id, version),
      FOREIGN KEY (project_id, fallback_channel_id) REFERENCES channels (project_id, id),
      FOREIGN KEY (project_id, audience_id) REFERENCES audiences (project_id, id),
      CHECK ((primary_template_id IS NULL) = (primary_template_version IS NULL)),
      CHECK (num_nulls(fallback_template_id, fallback_template_version, fallback_channel_id) IN (0, 3)),
      CHECK ((status = 'draft') = (scheduled_for IS NULL)),
      CHECK ((scheduled_for IS NULL) = (sends_per_minute IS NULL)),
      CHECK (status = 'draft'
        OR num_nulls(primary_template_id, primary_channel_id, audience_id) = 0),
      CHECK ((status = 'paused') = (paused_from IS NOT NULL))
    )`
  // For the runner, which would otherwise read all ended campaigns.
  yield* sql`
    CREATE INDEX campaigns_under_way ON campaigns (project_id, id) WHERE status IN ('scheduled', 'running')`
  // The ended campaigns whose recipients are still stored.
  yield* sql`
    CREATE INDEX campaigns_ended ON campaigns (project_id, updated_at)
    WHERE status IN ('completed', 'cancelled') AND NOT recipients_removed`
  yield* sql`
    CREATE INDEX campaigns_by_age ON campaigns (project_id, created_at DESC, id DESC) WHERE created_at > '-infinity'`
  yield* sql`
    CREATE INDEX campaigns_by_status ON campaigns (project_id, status, created_at DESC, id DESC)
    WHERE created_at > '-infinity'`
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
