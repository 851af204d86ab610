/** Leases of messages and of campaigns' recipients carry the worker that holds them. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // Only while an attempt is under way. NULL: the lease ends by its time alone, as that of a request's own call does.
  yield* sql`ALTER TABLE messages ADD COLUMN worker_id bigint`
  yield* sql`ALTER TABLE messages ADD CHECK (worker_id IS NULL OR attempting)`
  yield* sql`CREATE INDEX messages_leased ON messages (project_id, id) WHERE worker_id IS NOT NULL`

  // Only while it is sent to; `campaign_recipients_leased` finds these.
  yield* sql`ALTER TABLE campaign_recipients ADD COLUMN worker_id bigint`
  yield* sql`ALTER TABLE campaign_recipients ADD CHECK (worker_id IS NULL OR status = 'sending')`
})
