/** Which provider a campaign's recipient was last sent to through. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // In doubt, a send is repeated through no other: whether it may be, and what its key means, is for this one to say.
  yield* sql`ALTER TABLE campaign_recipients ADD COLUMN provider_type text`
})
