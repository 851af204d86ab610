/** Tables whose rows are slow to change. */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"

/**
 * Slows down each change of a row of these tables, so that concurrent changes certainly overlap. Otherwise one change often
 * ends before the next begins.
 */
export const slowDown = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  ...tables: ReadonlyArray<"notes" | "tickets" | "tasks" | "webhooks" | "campaigns">
) {
  yield* sql`
    CREATE FUNCTION take_a_while() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN PERFORM pg_sleep(0.005); RETURN coalesce(NEW, OLD); END
    $$`
  for (const table of tables) {
    yield* sql`
      CREATE TRIGGER take_a_while BEFORE UPDATE OR DELETE ON ${sql(table)} FOR EACH ROW EXECUTE FUNCTION take_a_while()`
  }
}, Effect.orDie)
