/** The outbox: events, and the deliveries that wait for them to be sent. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // Like the ids that the service makes outside of SQL: a prefix, then a UUIDv7 without hyphens, so they sort by age.
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
      -- As in the body that is sent: json, unlike jsonb, keeps the order of the members.
      data        json NOT NULL,
      -- Span of the request that caused it (W3C Trace Context).
      traceparent text NOT NULL,
      occurred_at timestamptz(3) NOT NULL,
      PRIMARY KEY (project_id, id)
    )`
  // For pruning only. The condition is always true, but keeps the planner from using the index for other statements: see
  // idempotency_keys_age.
  yield* sql`CREATE INDEX events_by_age ON events (project_id, occurred_at) WHERE occurred_at IS NOT NULL`

  // A row doubles when its attempt is logged, hence the room on its page. Nothing that a claim changes stands in an index
  // or in the condition of one (`status` least of all), so a claim writes the row alone (HOT).
  yield* sql`
    CREATE TABLE deliveries (
      project_id      text COLLATE "C" NOT NULL,
      id              text COLLATE "C" NOT NULL,
      installation_id text COLLATE "C" NOT NULL,
      event_id        text COLLATE "C" NOT NULL,
      status          text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'delivering', 'delivered', 'dead')),
      -- Time at which the next attempt is due; while one is in flight, that at which it was. Null when finished.
      available_at    timestamptz(3),
      leased_until    timestamptz(3),
      -- Attempts made; also the number of the current one, and the fence of its lease.
      attempts        integer NOT NULL DEFAULT 0,
      -- Delays of the retry schedule that are used up since it began anew.
      retries         integer NOT NULL DEFAULT 0,
      -- [{number, startedAt, finishedAt, statusCode, errorCode, durationMs}], the oldest first.
      attempt_log     jsonb NOT NULL DEFAULT '[]',
      finished_at     timestamptz(3),
      -- Time of the last retry command. A delivery is as old as this, or as its creation.
      retried_at      timestamptz(3),
      -- Why it was dead-lettered without a last attempt: 'expired', 'disabled' or 'cancelled'.
      dead_code       text,
      -- Set for a delivery that a replay has made. 'replay_of' is the delivery that it repeats, which may be pruned first.
      replay_id       text COLLATE "C",
      replay_of       text COLLATE "C",
      created_at      timestamptz(3) NOT NULL,
      PRIMARY KEY (project_id, id),
      FOREIGN KEY (project_id, event_id) REFERENCES events (project_id, id),
      CHECK ((status IN ('pending', 'delivering')) = (available_at IS NOT NULL)),
      CHECK ((status IN ('delivered', 'dead')) = (finished_at IS NOT NULL)),
      CHECK ((status = 'delivering') = (leased_until IS NOT NULL))
    ) WITH (fillfactor = 50)`
  // The queue: by endpoint, so that a long one costs the others nothing.
  yield* sql`
    CREATE INDEX deliveries_open ON deliveries (project_id, installation_id, available_at, id)
    WHERE finished_at IS NULL`
  // For expiry alone, which states that there is a creation time. In a plan that is made for an empty table this index
  // looks as good for a claim as `deliveries_open`, but there it reads and sorts all open deliveries of a project.
  yield* sql`
    CREATE INDEX deliveries_by_age_of_open ON deliveries (project_id, (greatest(created_at, retried_at)))
    WHERE finished_at IS NULL AND created_at > '-infinity'`
  yield* sql`CREATE INDEX deliveries_finished ON deliveries (project_id, finished_at) WHERE finished_at IS NOT NULL`
  // For pruning of events, which states the condition, though it is always true.
  yield* sql`CREATE INDEX deliveries_by_event ON deliveries (project_id, event_id) WHERE event_id IS NOT NULL`
  // Dead deliveries. Their last attempt distinguishes them from delivered ones: a condition on `status` would prevent a
  // claim from updating the row alone (HOT), and only a result changes the attempt log.
  yield* sql`
    CREATE INDEX deliveries_dead ON deliveries (project_id, id)
    WHERE finished_at IS NOT NULL AND coalesce(attempt_log -> -1 ->> 'statusCode', '') NOT LIKE '2__'`
})
