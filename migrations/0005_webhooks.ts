/** What delivers the outbox: signing secrets, the health of endpoints, and the queue that deliveries wait in. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // Sealed. The secret in force retires never; after a rotation the old ones sign, too, until they do.
  yield* sql`
    CREATE TABLE webhook_secrets (
      project_id      text COLLATE "C" NOT NULL REFERENCES projects,
      installation_id text COLLATE "C" NOT NULL,
      -- The webhook's version that the secret came with.
      version         integer NOT NULL,
      sealed          bytea NOT NULL,
      retires_at      timestamptz(3) NOT NULL DEFAULT 'infinity',
      PRIMARY KEY (project_id, installation_id, version),
      FOREIGN KEY (project_id, installation_id) REFERENCES webhooks (project_id, installation_id)
    )`

  // The retry of a delivery has no version.
  yield* sql`ALTER TABLE idempotency_keys ALTER COLUMN version DROP NOT NULL`

  // Apart from the webhook, whose row every new delivery refers to: this one changes with each batch of attempts.
  yield* sql`
    CREATE TABLE endpoint_health (
      project_id      text COLLATE "C" NOT NULL REFERENCES projects,
      installation_id text COLLATE "C" NOT NULL,
      in_flight       integer NOT NULL DEFAULT 0 CHECK (in_flight >= 0),
      -- Failures in a row.
      failures        integer NOT NULL DEFAULT 0,
      -- While it is parked, nothing is sent before this time, and then one probe at a time.
      parked_until    timestamptz(3),
      failed_probes   integer NOT NULL DEFAULT 0,
      -- Until when the endpoint asks to be left alone (Retry-After).
      resting_until   timestamptz(3),
      -- Turns go round: the endpoint that was served last comes last.
      served_at       timestamptz(3) NOT NULL DEFAULT '-infinity',
      PRIMARY KEY (project_id, installation_id),
      FOREIGN KEY (project_id, installation_id) REFERENCES webhooks (project_id, installation_id)
    ) WITH (fillfactor = 50)`

  yield* sql`
    ALTER TABLE deliveries
      -- Made so far; also the number of the current attempt, and the fence of its lease.
      ADD COLUMN attempts integer NOT NULL DEFAULT 0,
      -- Delays of the retry schedule that are used up since it began anew.
      ADD COLUMN retries integer NOT NULL DEFAULT 0,
      -- [{number, startedAt, finishedAt, statusCode, errorCode, durationMs}], the oldest first.
      ADD COLUMN attempt_log jsonb NOT NULL DEFAULT '[]',
      ADD COLUMN finished_at timestamptz(3),
      ADD CHECK ((status IN ('delivered', 'dead')) = (finished_at IS NOT NULL))`

  yield* sql`ALTER TABLE deliveries DROP CONSTRAINT deliveries_check`
  // While it waits: when it is due. While it is being delivered: when its lease ends.
  yield* sql`ALTER TABLE deliveries RENAME COLUMN next_attempt_at TO available_at`
  yield* sql`ALTER TABLE deliveries ADD CHECK ((status IN ('pending', 'delivering')) = (available_at IS NOT NULL))`

  // The queue: by endpoint, so that a long one costs the others nothing.
  yield* sql`
    CREATE INDEX deliveries_open ON deliveries (project_id, installation_id, available_at, id)
    WHERE status IN ('pending', 'delivering')`
  yield* sql`
    CREATE INDEX deliveries_finished ON deliveries (project_id, finished_at)
    WHERE status IN ('delivered', 'dead')`
  yield* sql`CREATE INDEX deliveries_by_age ON deliveries (project_id, created_at DESC, id DESC)`
  yield* sql`CREATE INDEX events_by_age ON events (project_id, occurred_at)`
  yield* sql`CREATE INDEX deliveries_by_event ON deliveries (project_id, event_id)`
})
