/** Counts the retry commands of a delivery, whose number has a bound. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`ALTER TABLE deliveries ADD COLUMN retry_commands integer NOT NULL DEFAULT 0`
})
