/** Which command a campaign's sends belong to in a trace. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // Of the command that changed it last (W3C Trace Context): while it runs, of what scheduled or resumed it.
  yield* sql`ALTER TABLE campaigns ADD COLUMN traceparent text NOT NULL DEFAULT ''`
})
