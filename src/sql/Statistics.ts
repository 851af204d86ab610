/**
 * Statistics of tables, from which PostgreSQL plans statements. After a change of the statistics of a table, PostgreSQL makes new
 * plans for the prepared statements on the table.
 */
import { Duration, Effect } from "effect"
import type { SqlClient } from "effect/sql"

/** Maximum time for all tables. Autovacuum analyzes the tables that are left. */
const limit = Duration.seconds(30)

/**
 * Makes PostgreSQL publish this session's counts of changed rows at the end of the transaction, so that `analyzeChanged` sees
 * them.
 */
export const reportChanges = (sql: SqlClient.SqlClient) => sql`SELECT pg_stat_force_next_flush()`

/**
 * Analyzes the tables that have changed enough for autovacuum, which would notice only at its next run, up to a minute later.
 * Skips tables that the role does not own or that another session locks. Never fails: statistics only make plans better.
 */
export const analyzeChanged = (sql: SqlClient.SqlClient): Effect.Effect<void> =>
  Effect.gen(function* () {
    const tables = yield* sql<{ readonly name: string }>`
      SELECT pg_class.oid::regclass::text AS name FROM pg_stat_user_tables JOIN pg_class ON pg_class.oid = relid
      WHERE relnamespace = current_schema()::regnamespace AND pg_has_role(relowner, 'USAGE')
        AND n_mod_since_analyze > 50 + greatest(reltuples, 0) / 10`
    for (const { name } of tables) {
      yield* sql`SELECT set_config('lock_timeout', '1s', true), set_config('statement_timeout', '10s', true)`.pipe(
        Effect.andThen(sql`ANALYZE ${sql.literal(name)}`),
        sql.withTransaction,
        Effect.ignore
      )
    }
  }).pipe(Effect.timeoutOption(limit), Effect.ignore, Effect.withSpan("analyze"))
