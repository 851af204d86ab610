/**
 * The tables that retention deletes from are vacuumed, with their indexes, when a hundredth of their rows is dead. Otherwise
 * a claim or a prune of a large table reads past dead index entries, up to a fifth of its rows.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

const tables = ["idempotency_keys", "events", "deliveries", "messages", "campaign_recipients"]

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  for (const table of tables) {
    yield* sql`
      ALTER TABLE ${sql(table)} SET (
        autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, vacuum_index_cleanup = on
      )`
  }

  // Set when the recipients of a campaign have been removed, long after its end.
  yield* sql`ALTER TABLE campaigns ADD COLUMN recipients_removed boolean NOT NULL DEFAULT false`
})
