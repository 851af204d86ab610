/**
 * Adds the version of a channel's provider, and the version that a message's last attempt called. A send in doubt is repeated
 * only at the version that got it, as no other recognises its key.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`ALTER TABLE channels ADD COLUMN provider_version integer NOT NULL DEFAULT 1`
  yield* sql`ALTER TABLE messages ADD COLUMN provider_version integer NOT NULL DEFAULT 1`
})
