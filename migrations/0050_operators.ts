/** What operators do: replays of stored events, an audit of actions, and links to the console. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // Set for a delivery that a replay has made. `replay_of` is the delivery that it repeats, which may be pruned before it.
  yield* sql`
    ALTER TABLE deliveries
      ADD COLUMN replay_id text COLLATE "C",
      ADD COLUMN replay_of text COLLATE "C"`

  yield* sql`
    CREATE TABLE replays (
      project_id      text COLLATE "C" NOT NULL REFERENCES projects,
      id              text COLLATE "C" NOT NULL,
      installation_id text COLLATE "C" NOT NULL,
      -- Creation time of the deliveries that are repeated: from 'since' on, before 'until'.
      since           timestamptz(3) NOT NULL,
      until           timestamptz(3) NOT NULL,
      event_types     text[] NOT NULL,
      -- States of the deliveries that are repeated.
      statuses        text[] NOT NULL,
      -- Maximum number of deliveries made per second.
      pace            integer NOT NULL CHECK (pace BETWEEN 1 AND 1000),
      state           text NOT NULL CHECK (state IN ('running', 'cancelling', 'cancelled', 'completed')),
      -- Deliveries that were found when the replay began, and those that were made since.
      matched         integer NOT NULL,
      queued          integer NOT NULL DEFAULT 0,
      -- Id of the last delivery that was looked at.
      position        text COLLATE "C" NOT NULL,
      -- Time up to which the pace is used up.
      paced_at        timestamptz(3) NOT NULL,
      created_at      timestamptz(3) NOT NULL,
      finished_at     timestamptz(3),
      PRIMARY KEY (project_id, id),
      FOREIGN KEY (project_id, installation_id) REFERENCES webhooks (project_id, installation_id),
      CHECK ((state IN ('cancelled', 'completed')) = (finished_at IS NOT NULL))
    )`
  yield* sql`
    CREATE INDEX replays_under_way ON replays (project_id, id) WHERE state IN ('running', 'cancelling')`

  yield* sql`
    CREATE TABLE audit_entries (
      project_id text COLLATE "C" NOT NULL REFERENCES projects,
      id         text COLLATE "C" NOT NULL,
      at         timestamptz(3) NOT NULL,
      actor      text NOT NULL,
      action     text NOT NULL,
      target     text NOT NULL,
      detail     jsonb NOT NULL,
      PRIMARY KEY (project_id, id)
    )`

  // Secrets that were made before are of unknown age.
  yield* sql`ALTER TABLE webhook_secrets ADD COLUMN created_at timestamptz(3)`
  yield* sql`ALTER TABLE webhook_secrets ALTER COLUMN created_at SET DEFAULT now()`

  // Unused links to the console. A session is valid for all projects, so no project leads the key.
  yield* sql`
    CREATE TABLE console_links (
      digest     bytea PRIMARY KEY,
      expires_at timestamptz(3) NOT NULL
    )`
})
