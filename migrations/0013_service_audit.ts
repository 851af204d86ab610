/**
 * Adds the audit of what concerns all projects, such as sign-ins and the deletion of a project, and the user who issued a link to the
 * console.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE TABLE service_audit (
      id     text COLLATE "C" PRIMARY KEY,
      at     timestamptz(3) NOT NULL,
      actor  text NOT NULL,
      action text NOT NULL,
      target text NOT NULL,
      detail jsonb NOT NULL
    )`
  yield* sql`ALTER TABLE console_links ADD COLUMN actor text NOT NULL DEFAULT 'unknown'`
})
