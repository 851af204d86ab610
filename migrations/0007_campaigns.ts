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
      status                    text NOT NULL DEFAULT 'draft'
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

  // A row for each eligible client of an audience. A client outlives its audiences, so no foreign key locks its row.
  yield* sql`
    CREATE TABLE campaign_recipients (
      project_id    text COLLATE "C" NOT NULL,
      audience_id   text COLLATE "C" NOT NULL,
      -- From 0, the oldest client first.
      position      integer NOT NULL,
      client_id     text COLLATE "C" NOT NULL,
      status        text NOT NULL DEFAULT 'pending'
        CHECK (status IN ('pending', 'sending', 'sent', 'failed', 'unknown', 'skipped')),
      -- The route of the current or last attempt.
      route         text NOT NULL DEFAULT 'primary' CHECK (route IN ('primary', 'fallback')),
      -- The provider of the last attempt. A send in doubt is repeated only there: no other provider knows its idempotency key.
      provider_type text,
      attempts      integer NOT NULL DEFAULT 0,
      -- End of the lease while an attempt is in flight. Otherwise the time of the next attempt, if one was made before.
      available_at  timestamptz(3),
      -- Worker that holds the lease while an attempt is in flight.
      worker_id     bigint,
      -- Whether the provider may have accepted an attempt whose outcome is unknown.
      in_doubt      boolean NOT NULL DEFAULT false,
      PRIMARY KEY (project_id, audience_id, position),
      FOREIGN KEY (project_id, audience_id) REFERENCES audiences (project_id, id)
    )`
  // The queue. Recipients without an attempt have no time yet, and are ordered by position.
  yield* sql`
    CREATE INDEX campaign_recipients_open ON campaign_recipients (project_id, audience_id, available_at, position)
    WHERE status IN ('pending', 'sending')`
  // Recipients in flight, to find those whose lease has ended.
  yield* sql`
    CREATE INDEX campaign_recipients_leased ON campaign_recipients (project_id, audience_id, available_at)
    WHERE status = 'sending'`

  // Assigns pairs of channel and address to recipients, in the order of the recipients. Recipients and pairs are numbered
  // from 1. `owners[i]` is a recipient that has the pair `pairs[i]`; the entries of a recipient are adjacent. Returns for each
  // recipient 1 if it gets all of its pairs, 2 if an earlier recipient got one of them, so that it gets none, and 0 if it has
  // no pair. Each result depends on the earlier ones, so this is a loop. It takes linear time, because PL/pgSQL changes its
  // own arrays in place.
  yield* sql`
    CREATE FUNCTION first_come(owners integer[], pairs integer[], owner_count integer, pair_count integer)
    RETURNS smallint[] LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
    DECLARE
      verdicts smallint[] := array_fill(0::smallint, ARRAY[owner_count]);
      taken    boolean[] := array_fill(false, ARRAY[pair_count]);
      size     integer := cardinality(owners);
      next     integer := 1;
      start    integer;
      owner    integer;
      is_first boolean;
    BEGIN
      WHILE next <= size LOOP
        start := next;
        owner := owners[start];
        is_first := true;
        WHILE next <= size AND owners[next] = owner LOOP
          is_first := is_first AND NOT taken[pairs[next]];
          next := next + 1;
        END LOOP;
        IF is_first THEN
          FOR i IN start .. next - 1 LOOP
            taken[pairs[i]] := true;
          END LOOP;
        END IF;
        verdicts[owner] := CASE WHEN is_first THEN 1 ELSE 2 END;
      END LOOP;
      RETURN verdicts;
    END $$`
})
