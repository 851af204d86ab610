/** Leases of messages and of campaigns' recipients carry the worker that holds them. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // Counts only while an attempt is in flight: a process of the release before leaves it as it is. NULL: the lease ends by
  // its time alone, as that of a request's own call does.
  yield* sql`ALTER TABLE messages ADD COLUMN worker_id bigint`
  yield* sql`CREATE INDEX messages_leased ON messages (project_id, id) WHERE attempting AND worker_id IS NOT NULL`

  // Counts only while the recipient is sent to; `campaign_recipients_leased` finds these.
  yield* sql`ALTER TABLE campaign_recipients ADD COLUMN worker_id bigint`
})
