/** The recipients of audiences: their queue, their counts by state, and the choice of recipients among equal addresses. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // A row for each eligible client of an audience. A client outlives its audiences, so no foreign key locks its row.
  yield* sql`
    CREATE TABLE campaign_recipients (
      project_id    text COLLATE "C" NOT NULL,
      audience_id   text COLLATE "C" NOT NULL,
      -- From 0, the oldest client first.
      position      integer NOT NULL,
      client_id     text COLLATE "C" NOT NULL,
      status        text COLLATE "C" NOT NULL DEFAULT 'pending'
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
      -- The id of the last message to the recipient. Null if none was sent.
      message_id    text COLLATE "C",
      PRIMARY KEY (project_id, audience_id, position),
      FOREIGN KEY (project_id, audience_id) REFERENCES audiences (project_id, id)
    ) WITH (
      autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, vacuum_index_cleanup = on
    )`
  // The queue. Recipients without an attempt have no time yet, and are ordered by position.
  yield* sql`
    CREATE INDEX campaign_recipients_open ON campaign_recipients (project_id, audience_id, available_at, position)
    WHERE status IN ('pending', 'sending')`
  // Recipients in flight, to find those whose lease has ended.
  yield* sql`
    CREATE INDEX campaign_recipients_leased ON campaign_recipients (project_id, audience_id, available_at)
    WHERE status = 'sending'`
  // For the progress of a campaign. The index is small, because few recipients end in these states.
  yield* sql`
    CREATE INDEX campaign_recipients_unsent ON campaign_recipients (project_id, audience_id, status)
    WHERE status IN ('failed', 'unknown', 'skipped')`

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
