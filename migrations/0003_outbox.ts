/** The outbox: events, and their deliveries to webhooks. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // Makes ids as the service does outside of SQL: a prefix, then a UUIDv7 without hyphens, so that ids sort by age.
  yield* sql`
    CREATE FUNCTION new_id(prefix text, at timestamptz) RETURNS text LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
      SELECT prefix || '_' || lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0')
        || '7' || substr(replace(gen_random_uuid()::text, '-', ''), 14)
    $$`

  yield* sql`
    CREATE TABLE events (
      project_id  text COLLATE "C" NOT NULL,
      id          text COLLATE "C" NOT NULL,
      type        text NOT NULL,
      -- The data as it is sent: json, unlike jsonb, keeps the order of the members.
      data        json NOT NULL,
      -- Span of the request that caused the event (W3C Trace Context).
      traceparent text NOT NULL,
      occurred_at timestamptz(3) NOT NULL,
      PRIMARY KEY (project_id, id)
    ) WITH (
      autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, vacuum_index_cleanup = on
    )`
  // For pruning only. The condition is always true, but keeps the planner from using the index for other statements: see
  // idempotency_keys_age.
  yield* sql`CREATE INDEX events_by_age ON events (project_id, occurred_at) WHERE occurred_at IS NOT NULL`

  // A row doubles when its attempt is logged, so half of each page stays free. No index, and no condition of an index, has a
  // column that a claim changes, such as `status`: a claim then writes only the row (HOT).
  yield* sql`
    CREATE TABLE deliveries (
      project_id      text COLLATE "C" NOT NULL,
      id              text COLLATE "C" NOT NULL,
      installation_id text COLLATE "C" NOT NULL,
      event_id        text COLLATE "C" NOT NULL,
      status          text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'delivering', 'delivered', 'dead')),
      -- Time at which the next attempt is due, or at which the attempt in flight was due. Null when finished.
      available_at    timestamptz(3),
      leased_until    timestamptz(3),
      -- Attempts made; also the number of the current one, and the fence of its lease.
      attempts        integer NOT NULL DEFAULT 0,
      -- Number of delays of the retry schedule that are used up. A retry command sets it to 0.
      retries         integer NOT NULL DEFAULT 0,
      -- [{number, startedAt, finishedAt, statusCode, errorCode, durationMs, endpointUrl, responseBody}], the oldest first.
      attempt_log     jsonb NOT NULL DEFAULT '[]',
      finished_at     timestamptz(3),
      -- Time of the last retry command. The age of a delivery counts from then, otherwise from its creation.
      retried_at      timestamptz(3),
      -- Why the delivery was dead-lettered without a last attempt: 'expired', 'disabled' or 'cancelled'.
      dead_code       text,
      -- Set for a delivery that a replay has made. 'replay_of' is the delivery that it repeats, which may be pruned first.
      replay_id       text COLLATE "C",
      replay_of       text COLLATE "C",
      created_at      timestamptz(3) NOT NULL,
      -- The type of the event, for lists of deliveries of one type.
      event_type      text COLLATE "C",
      PRIMARY KEY (project_id, id),
      FOREIGN KEY (project_id, event_id) REFERENCES events (project_id, id),
      CHECK ((status IN ('pending', 'delivering')) = (available_at IS NOT NULL)),
      CHECK ((status IN ('delivered', 'dead')) = (finished_at IS NOT NULL)),
      CHECK ((status = 'delivering') = (leased_until IS NOT NULL))
    ) WITH (
      fillfactor = 50,
      autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, vacuum_index_cleanup = on
    )`
  // For processes of an earlier version, which do not set the type.
  yield* sql`
    CREATE FUNCTION set_event_type() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
    BEGIN
      NEW.event_type := (SELECT type FROM events WHERE project_id = NEW.project_id AND id = NEW.event_id);
      RETURN NEW;
    END $$`
  yield* sql`
    CREATE TRIGGER deliveries_have_a_type BEFORE INSERT ON deliveries
    FOR EACH ROW WHEN (NEW.event_type IS NULL) EXECUTE FUNCTION set_event_type()`
  // The queue of each endpoint. A long queue does not slow down the other endpoints.
  yield* sql`
    CREATE INDEX deliveries_open ON deliveries (project_id, installation_id, available_at, id)
    WHERE finished_at IS NULL`
  // For expiry only, which states the condition on the creation time, though it is always true. Without the condition, a claim
  // that is planned while the table is empty could use this index, and would read and sort all open deliveries of a project.
  yield* sql`
    CREATE INDEX deliveries_by_age_of_open ON deliveries (project_id, (greatest(created_at, retried_at)))
    WHERE finished_at IS NULL AND created_at > '-infinity'`
  yield* sql`CREATE INDEX deliveries_finished ON deliveries (project_id, finished_at) WHERE finished_at IS NOT NULL`
  // For pruning of events only, which states the condition, though it is always true.
  yield* sql`CREATE INDEX deliveries_by_event ON deliveries (project_id, event_id) WHERE event_id IS NOT NULL`
  // Dead deliveries: finished, and the last attempt has no status 2xx. A condition on `status` would prevent a claim from
  // writing only the row (HOT). The attempt log is changed only by a result, not by a claim.
  yield* sql`
    CREATE INDEX deliveries_dead ON deliveries (project_id, id)
    WHERE finished_at IS NOT NULL AND coalesce(attempt_log -> -1 ->> 'statusCode', '') NOT LIKE '2__'`
  yield* sql`CREATE INDEX deliveries_by_installation ON deliveries (project_id, installation_id, id)`
  // For lists of the deliveries of an installation. The expression is the state that the API shows, which a claim does not change.
  yield* sql`
    CREATE INDEX deliveries_by_state ON deliveries (project_id, installation_id, (
      CASE
        WHEN finished_at IS NULL THEN 'pending' COLLATE "C"
        WHEN coalesce(attempt_log -> -1 ->> 'statusCode', '') LIKE '2__' THEN 'delivered'
        ELSE 'dead'
      END
    ), event_type, id)`
  yield* sql`
    CREATE INDEX deliveries_of_replays ON deliveries (project_id, replay_id)
    WHERE replay_id IS NOT NULL AND finished_at IS NULL`
})
