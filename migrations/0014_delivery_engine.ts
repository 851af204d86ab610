/** Due deliveries are found by endpoint: its row holds when its next delivery is due, and which worker delivers to it. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`
    ALTER TABLE deliveries
      -- Time of the last retry command. A delivery is as old as this, or as its creation.
      ADD COLUMN retried_at timestamptz(3),
      -- Why it was dead-lettered without a last attempt: 'expired' or 'disabled'.
      ADD COLUMN dead_code text`
  yield* sql`
    CREATE INDEX deliveries_by_age ON deliveries (project_id, (greatest(created_at, retried_at)))
    WHERE finished_at IS NULL`

  // Set while a webhook is disabled by the service or an operator: 'gone' (410) or 'failing'.
  yield* sql`ALTER TABLE webhooks ADD COLUMN disabled_reason text`

  yield* sql`
    ALTER TABLE endpoint_health
      DROP COLUMN holder,
      DROP COLUMN served_at,
      -- Worker that holds every lease of the endpoint; null while nothing is in flight.
      ADD COLUMN worker_id bigint,
      -- Failures in a row, a timeout counted three times. From three on the endpoint is suspect.
      ADD COLUMN strikes integer NOT NULL DEFAULT 0,
      -- Time of the first failure since the last success.
      ADD COLUMN failing_since timestamptz(3),
      ADD COLUMN last_success_at timestamptz(3),
      -- Earliest time at which a pending delivery is due, as of the last claim, result or sweep.
      ADD COLUMN next_due_at timestamptz(3),
      -- As many deliveries are in flight as the endpoint may have.
      ADD COLUMN saturated boolean NOT NULL DEFAULT false,
      -- Its webhook is disabled and pending deliveries are left to dead-letter.
      ADD COLUMN discarding boolean NOT NULL DEFAULT false`
  yield* sql`
    ALTER TABLE endpoint_health
      ADD COLUMN suspect boolean GENERATED ALWAYS AS (strikes >= 3 OR parked_until IS NOT NULL) STORED,
      -- Earliest time at which a claim finds something.
      ADD COLUMN claim_at timestamptz(3) GENERATED ALWAYS AS (
        CASE WHEN next_due_at IS NOT NULL AND NOT saturated THEN greatest(next_due_at, parked_until, resting_until) END
      ) STORED`

  // A worker serves all projects: it finds due endpoints by time.
  yield* sql`CREATE INDEX endpoint_health_due ON endpoint_health (claim_at) WHERE claim_at IS NOT NULL AND NOT suspect`
  yield* sql`CREATE INDEX endpoint_health_due_suspect ON endpoint_health (claim_at) WHERE claim_at IS NOT NULL AND suspect`
  yield* sql`CREATE INDEX endpoint_health_leased ON endpoint_health (project_id, installation_id) WHERE worker_id IS NOT NULL`
  yield* sql`CREATE INDEX endpoint_health_discarding ON endpoint_health (project_id, installation_id) WHERE discarding`

  // Deliveries in flight belong to a worker that this migration does not know: they are returned to the queue.
  yield* sql`
    UPDATE deliveries SET status = 'pending', leased_until = NULL
    WHERE finished_at IS NULL AND status = 'delivering'`
  yield* sql`
    UPDATE endpoint_health health SET in_flight = 0, next_due_at = (
      SELECT min(available_at) FROM deliveries
      WHERE project_id = health.project_id AND installation_id = health.installation_id AND finished_at IS NULL
    )`
  yield* sql`
    ALTER TABLE endpoint_health ADD CHECK ((in_flight > 0) = (worker_id IS NOT NULL))`
})
