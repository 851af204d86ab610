/** Adds the id of a deal in another system. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`ALTER TABLE deals ADD COLUMN external_id text COLLATE "C"`
})
