/** Deadlocks that PostgreSQL has resolved in the database of a test. */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"

/**
 * Counts the deadlocks so far. Ends all other sessions of the database first: a session reports what it has counted up to ten
 * seconds later, but at the latest when it ends.
 */
export const deadlocks = Effect.fnUntraced(
  function* (sql: SqlClient.SqlClient) {
    const connection = yield* sql.reserve
    yield* connection.execute(
      `SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity
     WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`,
      [],
      undefined
    )
    yield* connection.execute("SELECT pg_stat_force_next_flush()", [], undefined)
    const [row] = yield* connection.execute(
      "SELECT deadlocks::int AS count FROM pg_stat_database WHERE datname = current_database()",
      [],
      undefined
    )
    return row?.["count"]
  },
  Effect.scoped,
  Effect.orDie
)
