/**
 * Removes what only earlier versions needed: the version of the rules by which a staged batch was evaluated, and the triggers that
 * kept processes without messages of campaigns from a recipient that has one.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

const run = (step: (sql: SqlClient.SqlClient) => Effect.Effect<unknown, unknown>) =>
  Effect.flatMap(SqlClient.SqlClient, step)

export default [
  // The column stays until no version writes it.
  run(
    (sql) => sql`
      ALTER TABLE staged_batches DROP CONSTRAINT IF EXISTS staged_batches_check,
        DROP CONSTRAINT IF EXISTS staged_batches_evaluated,
        ADD CONSTRAINT staged_batches_evaluated CHECK (num_nulls(profile_version, profile_mappings, counts, duplicate_count,
          unsupported_fields, fingerprint) IN (0, 6)) NOT VALID`
  ),
  run((sql) => sql`ALTER TABLE staged_batches VALIDATE CONSTRAINT staged_batches_evaluated`),
  run((sql) => sql`DROP TRIGGER IF EXISTS recipients_with_messages ON campaign_recipients`),
  run((sql) => sql`DROP TRIGGER IF EXISTS messages_of_campaigns ON messages`),
  run((sql) => sql`DROP FUNCTION IF EXISTS leave_recipient(), leave_queue()`)
]
