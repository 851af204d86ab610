/** Installations and their webhooks: signing secrets, the health of endpoints, replays, and counts of attempts. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`
    CREATE TABLE installations (
      project_id       text COLLATE "C" NOT NULL REFERENCES projects,
      id               text COLLATE "C" NOT NULL,
      name             text NOT NULL,
      status           text NOT NULL CHECK (status IN ('active', 'disabled')),
      -- The import profile.
      profile_version  integer,
      profile_mappings jsonb,
      -- Digest of the staged records in their order. It shows whether records have changed without reading them.
      staged_digest    text,
      PRIMARY KEY (project_id, id),
      CHECK ((profile_version IS NULL) = (profile_mappings IS NULL))
    )`

  // An installation has at most one webhook.
  yield* sql`
    CREATE TABLE webhooks (
      project_id      text COLLATE "C" NOT NULL REFERENCES projects,
      installation_id text COLLATE "C" NOT NULL,
      endpoint_url    text NOT NULL,
      event_types     text[] NOT NULL,
      enabled         boolean NOT NULL,
      -- Set while the webhook is disabled by the service or an operator: 'gone' (410), 'failing' or 'operator'.
      disabled_reason text,
      version         integer NOT NULL,
      updated_at      timestamptz(3) NOT NULL DEFAULT now(),
      -- The number of the URL: 1, and one more after each change. The health belongs to the URL with the same number.
      url_version     integer NOT NULL DEFAULT 1,
      PRIMARY KEY (project_id, installation_id),
      FOREIGN KEY (project_id, installation_id) REFERENCES installations (project_id, id)
    )`
  yield* sql`
    CREATE TRIGGER referenced_by_deliveries_installation_id AFTER DELETE ON webhooks
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT
    EXECUTE FUNCTION keep_referenced('deliveries', 'installation_id', 'installation_id')`

  // Secrets are encrypted. The current secret has no end. After a rotation, earlier secrets also sign until they retire.
  yield* sql`
    CREATE TABLE webhook_secrets (
      project_id      text COLLATE "C" NOT NULL REFERENCES projects,
      installation_id text COLLATE "C" NOT NULL,
      -- Version of the webhook that the secret came with.
      version         integer NOT NULL,
      sealed          bytea NOT NULL,
      retires_at      timestamptz(3) NOT NULL DEFAULT 'infinity',
      created_at      timestamptz(3) DEFAULT now(),
      PRIMARY KEY (project_id, installation_id, version),
      FOREIGN KEY (project_id, installation_id) REFERENCES webhooks (project_id, installation_id)
    )`

  // Not a part of webhooks: every new delivery reads the webhook, and this row changes with each batch of attempts.
  yield* sql`
    CREATE TABLE endpoint_health (
      project_id      text COLLATE "C" NOT NULL REFERENCES projects,
      installation_id text COLLATE "C" NOT NULL,
      in_flight       integer NOT NULL DEFAULT 0 CHECK (in_flight >= 0),
      -- Worker that holds every lease of the endpoint; null while nothing is in flight.
      worker_id       bigint,
      -- Failures in a row.
      failures        integer NOT NULL DEFAULT 0,
      -- Failures in a row, a timeout counted three times. From three on the endpoint is suspect.
      strikes         integer NOT NULL DEFAULT 0,
      -- Start of the failing period. After a long time without an attempt, another period begins.
      failing_since   timestamptz(3),
      last_success_at timestamptz(3),
      -- Set while the endpoint is parked. Nothing is sent before this time, and then one probe at a time.
      parked_until    timestamptz(3),
      failed_probes   integer NOT NULL DEFAULT 0,
      -- End of the delay that the endpoint has requested (Retry-After).
      resting_until   timestamptz(3),
      -- Earliest time at which a pending delivery is due, as of the last claim, result or sweep.
      next_due_at     timestamptz(3),
      -- Whether the endpoint has its maximum number of deliveries in flight.
      saturated       boolean NOT NULL DEFAULT false,
      -- Whether the webhook is disabled and still has pending deliveries to dead-letter.
      discarding      boolean NOT NULL DEFAULT false,
      suspect         boolean GENERATED ALWAYS AS (strikes >= 3 OR parked_until IS NOT NULL) STORED,
      -- Earliest time at which a claim finds a delivery.
      claim_at        timestamptz(3) GENERATED ALWAYS AS (
        CASE WHEN next_due_at IS NOT NULL AND NOT saturated THEN greatest(next_due_at, parked_until, resting_until) END
      ) STORED,
      -- {at, statusCode, errorCode, responseBody} of the last attempt that failed. It stays after a success.
      last_failure    json,
      url_version     integer NOT NULL DEFAULT 1,
      last_failed_at  timestamptz(3),
      -- Number of failures in the failing period.
      failing_attempts integer NOT NULL DEFAULT 0,
      PRIMARY KEY (project_id, installation_id),
      FOREIGN KEY (project_id, installation_id) REFERENCES webhooks (project_id, installation_id),
      CHECK ((in_flight > 0) = (worker_id IS NOT NULL))
    ) WITH (fillfactor = 50)`
  // A worker serves all projects: it finds due endpoints by time.
  yield* sql`CREATE INDEX endpoint_health_due ON endpoint_health (claim_at) WHERE claim_at IS NOT NULL AND NOT suspect`
  yield* sql`CREATE INDEX endpoint_health_due_suspect ON endpoint_health (claim_at) WHERE claim_at IS NOT NULL AND suspect`
  // The due endpoints of each project, so that a claim can take from all projects in turn.
  yield* sql`
    CREATE INDEX endpoint_health_by_project ON endpoint_health (project_id, claim_at)
    WHERE claim_at IS NOT NULL AND NOT suspect`
  yield* sql`
    CREATE INDEX endpoint_health_by_project_suspect ON endpoint_health (project_id, claim_at)
    WHERE claim_at IS NOT NULL AND suspect`
  yield* sql`CREATE INDEX endpoint_health_leased ON endpoint_health (project_id, installation_id) WHERE worker_id IS NOT NULL`
  yield* sql`CREATE INDEX endpoint_health_discarding ON endpoint_health (project_id, installation_id) WHERE discarding`
  yield* sql`
    CREATE INDEX endpoint_health_failing ON endpoint_health (failing_since, project_id, installation_id)
    WHERE failing_since IS NOT NULL`

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
      -- Number of deliveries found when the replay began, and number of deliveries made since.
      matched         integer NOT NULL,
      queued          integer NOT NULL DEFAULT 0,
      -- Id of the last delivery that was read.
      position        text COLLATE "C" NOT NULL,
      -- The pace is used up until this time by the deliveries that were made.
      paced_at        timestamptz(3) NOT NULL,
      created_at      timestamptz(3) NOT NULL,
      finished_at     timestamptz(3),
      -- 'operator' or 'webhook_disabled'; null while it is not cancelled.
      end_reason      text,
      PRIMARY KEY (project_id, id),
      FOREIGN KEY (project_id, installation_id) REFERENCES webhooks (project_id, installation_id),
      CHECK ((state IN ('cancelled', 'completed')) = (finished_at IS NOT NULL))
    )`
  yield* sql`
    CREATE INDEX replays_under_way ON replays (project_id, id) WHERE state IN ('running', 'cancelling')`

  // Attempts of deliveries by minute. Each worker has rows of its own, so that no two statements wait for a row. The rows of the
  // project '' count the attempts of all projects, including projects that are deleted later.
  yield* sql`
    CREATE TABLE attempt_minutes (
      project_id text COLLATE "C" NOT NULL,
      minute     timestamptz(0) NOT NULL,
      worker_id  bigint NOT NULL,
      delivered  boolean NOT NULL,
      -- The number of a range of durations. There are four ranges for each doubling.
      bucket     smallint NOT NULL,
      attempts   integer NOT NULL,
      PRIMARY KEY (project_id, minute, worker_id, delivered, bucket)
    ) WITH (fillfactor = 50)`
})
