/** Messages of campaigns: a message belongs to a conversation, or to a recipient of a campaign. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // `available_at` of a campaign's message is null between two attempts: the message waits with its recipient.
  yield* sql`
    ALTER TABLE messages ALTER COLUMN conversation_id DROP NOT NULL,
      ADD COLUMN campaign_id text COLLATE "C",
      ADD COLUMN audience_id text COLLATE "C",
      ADD COLUMN position integer`

  // The last message to the recipient, on its route. Null: there is none, or an earlier version has sent it.
  yield* sql`ALTER TABLE campaign_recipients ADD COLUMN message_id text COLLATE "C"`
})
