/**
 * Lets replays walk events instead of deliveries, marks dead deliveries that a replay has delivered, and bounds the reads of a queue.
 * The columns that only the version before reads stay: the pace and the counts of replays, and the numbers of URLs and failing periods
 * in `webhooks` and `endpoint_health`.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // The delivered delivery that repeats this dead one, which counts as dead no longer.
  yield* sql`ALTER TABLE deliveries ADD COLUMN replayed_by text COLLATE "C"`
  // No event before this time is sent by a replay, unless it has a delivery. All webhooks of the version before count as created on
  // the day of this migration.
  yield* sql`ALTER TABLE webhooks ADD COLUMN created_at timestamptz(3) NOT NULL DEFAULT '2026-11-28T00:00:00Z'`
  yield* sql`ALTER TABLE webhooks ALTER COLUMN created_at SET DEFAULT now()`
  // No open delivery was due earlier. Reads of the queue begin here: before it are deliveries that have ended, whose index
  // entries stay as long as any snapshot of the database is older.
  yield* sql`ALTER TABLE endpoint_health ADD COLUMN open_from timestamptz(3) NOT NULL DEFAULT '-infinity'`

  yield* sql`
    ALTER TABLE replays
      ADD COLUMN status text NOT NULL DEFAULT 'all',
      -- Number of deliveries made.
      ADD COLUMN made integer NOT NULL DEFAULT 0,
      ALTER COLUMN statuses DROP NOT NULL,
      ALTER COLUMN pace DROP NOT NULL,
      ALTER COLUMN matched DROP NOT NULL,
      ALTER COLUMN paced_at DROP NOT NULL`
})
