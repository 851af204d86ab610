/**
 * Restricts the index of deliveries by age to expiry. In a plan that is made while the table is empty or not analyzed it looks
 * as good for a claim as `deliveries_open` does, but there it reads and sorts all open deliveries of a project. Expiry states
 * its condition, which is always true; a claim does not.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`DROP INDEX deliveries_by_age`
  yield* sql`
    CREATE INDEX deliveries_by_age ON deliveries (project_id, (greatest(created_at, retried_at)))
    WHERE finished_at IS NULL AND created_at > '-infinity'`
})
