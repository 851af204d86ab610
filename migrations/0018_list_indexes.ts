/**
 * Restricts the indexes of lists to lists. In a plan that is made for an empty table they look as good for a look-up by key
 * as the primary key does, but there they read all records of a project. A list states their condition, which is always
 * true (`platform/Pages.ts`); a look-up does not.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`DROP INDEX clients_by_age, clients_by_status, deals_by_lifecycle, deals_by_status, notes_by_deal`
  yield* sql`
    CREATE INDEX clients_by_age ON clients (project_id, created_at DESC, id DESC) WHERE created_at > '-infinity'`
  yield* sql`
    CREATE INDEX clients_by_status ON clients (project_id, status, created_at DESC, id DESC)
    WHERE created_at > '-infinity'`
  yield* sql`
    CREATE INDEX deals_by_lifecycle ON deals (project_id, lifecycle, created_at DESC, id DESC)
    WHERE created_at > '-infinity'`
  yield* sql`
    CREATE INDEX deals_by_status ON deals (project_id, lifecycle, status, created_at DESC, id DESC)
    WHERE created_at > '-infinity'`
  yield* sql`
    CREATE INDEX notes_by_deal ON notes (project_id, deal_id, created_at DESC, id DESC)
    WHERE created_at > '-infinity'`
})
