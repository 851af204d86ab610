/** Rows that take a while to change. */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"

/**
 * Makes each change to a row of a table take a while from here on, so that those who change it at the same time are sure
 * to meet: without this one is mostly through before the next has come.
 */
export const slowDown = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  table: "notes" | "tickets" | "tasks" | "webhooks"
) {
  yield* sql`
    CREATE FUNCTION take_a_while() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN PERFORM pg_sleep(0.005); RETURN coalesce(NEW, OLD); END
    $$`
  yield* sql`
    CREATE TRIGGER take_a_while BEFORE UPDATE OR DELETE ON ${sql(table)} FOR EACH ROW EXECUTE FUNCTION take_a_while()`
}, Effect.orDie)
