/** Installations, their webhooks, events and deliveries. */
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
    CREATE TABLE installations (
      project_id text COLLATE "C" NOT NULL REFERENCES projects,
      id         text COLLATE "C" NOT NULL,
      name       text NOT NULL,
      status     text NOT NULL CHECK (status IN ('active', 'disabled')),
      PRIMARY KEY (project_id, id)
    )`

  // One to an installation.
  yield* sql`
    CREATE TABLE webhooks (
      project_id      text COLLATE "C" NOT NULL REFERENCES projects,
      installation_id text COLLATE "C" NOT NULL,
      endpoint_url    text NOT NULL,
      event_types     text[] NOT NULL,
      enabled         boolean NOT NULL,
      version         integer NOT NULL,
      PRIMARY KEY (project_id, installation_id),
      FOREIGN KEY (project_id, installation_id) REFERENCES installations (project_id, id)
    )`

  yield* sql`
    CREATE TABLE events (
      project_id  text COLLATE "C" NOT NULL REFERENCES projects,
      id          text COLLATE "C" NOT NULL,
      type        text NOT NULL,
      -- As it is told: json, not jsonb, keeps the order of the members.
      data        json NOT NULL,
      -- Where its cause stands in a trace (W3C Trace Context).
      traceparent text NOT NULL,
      occurred_at timestamptz(3) NOT NULL,
      PRIMARY KEY (project_id, id)
    )`

  yield* sql`
    CREATE TABLE deliveries (
      project_id      text COLLATE "C" NOT NULL REFERENCES projects,
      id              text COLLATE "C" NOT NULL,
      installation_id text COLLATE "C" NOT NULL,
      event_id        text COLLATE "C" NOT NULL,
      status          text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'delivering', 'delivered', 'dead')),
      -- When the next attempt is due, while it is pending.
      next_attempt_at timestamptz(3),
      created_at      timestamptz(3) NOT NULL,
      PRIMARY KEY (project_id, id),
      FOREIGN KEY (project_id, installation_id) REFERENCES webhooks (project_id, installation_id),
      FOREIGN KEY (project_id, event_id) REFERENCES events (project_id, id),
      CHECK ((status = 'pending') = (next_attempt_at IS NOT NULL))
    )`
})
