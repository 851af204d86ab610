/** Says why a replay was cancelled. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // 'operator' or 'webhook_disabled'; null while it is not cancelled.
  yield* sql`ALTER TABLE replays ADD COLUMN end_reason text`
})
