/** Headers that a caller has chosen for the deliveries of a webhook. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`
    ALTER TABLE webhooks
      -- The encrypted names and values, as JSON; null without headers.
      ADD COLUMN headers bytea,
      -- The names, for readers.
      ADD COLUMN header_names text[] NOT NULL DEFAULT '{}'`
})
