/** Makes the way of a delivery cheaper: a claim writes no index. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // Until when it is leased, while it is being delivered; `available_at` stays what it was.
  yield* sql`ALTER TABLE deliveries ADD COLUMN leased_until timestamptz(3)`
  yield* sql`UPDATE deliveries SET leased_until = available_at WHERE status = 'delivering'`
  yield* sql`ALTER TABLE deliveries ADD CHECK ((status = 'delivering') = (leased_until IS NOT NULL))`

  // Nothing that a claim changes stands in an index, nor in its condition (`status` least of all): with room on its page,
  // the row alone is written (HOT).
  yield* sql`DROP INDEX deliveries_open`
  yield* sql`
    CREATE INDEX deliveries_open ON deliveries (project_id, installation_id, available_at, id)
    WHERE finished_at IS NULL`
  yield* sql`DROP INDEX deliveries_finished`
  yield* sql`CREATE INDEX deliveries_finished ON deliveries (project_id, finished_at) WHERE finished_at IS NOT NULL`
  // A row doubles when its attempt is logged.
  yield* sql`ALTER TABLE deliveries SET (fillfactor = 50)`

  // Who has all of its deliveries that are in flight: that process may claim ahead, as it minds alone how many are sent.
  yield* sql`ALTER TABLE endpoint_health ADD COLUMN holder text`

  // Only the command that lists all deliveries of a project wants them by age: it can sort them.
  yield* sql`DROP INDEX deliveries_by_age`
})
