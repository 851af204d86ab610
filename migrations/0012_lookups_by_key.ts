/** What names one delivery, or one event, finds it by its key. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // For who looks by event, and by age. A statement that names one delivery or event, planned while the table is empty and
  // all its indexes cost the same, could take these and read all of the project: it can't, as nothing in it says that
  // there is an event, or a time.
  yield* sql`DROP INDEX deliveries_by_event`
  yield* sql`CREATE INDEX deliveries_by_event ON deliveries (project_id, event_id) WHERE event_id IS NOT NULL`
  yield* sql`DROP INDEX events_by_age`
  yield* sql`CREATE INDEX events_by_age ON events (project_id, occurred_at) WHERE occurred_at IS NOT NULL`
})
