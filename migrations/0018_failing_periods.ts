/** Keeps apart the health of the URLs that a webhook has had, and counts the failures of the period in which it fails. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // How often the URL has changed. The health is of the URL with the same number.
  yield* sql`ALTER TABLE webhooks ADD COLUMN url_version integer NOT NULL DEFAULT 1`
  yield* sql`ALTER TABLE endpoint_health ADD COLUMN url_version integer NOT NULL DEFAULT 1`
  // 'failing_since' is the start of the period: a long time without an attempt begins another.
  yield* sql`ALTER TABLE endpoint_health ADD COLUMN last_failed_at timestamptz(3)`
  yield* sql`ALTER TABLE endpoint_health ADD COLUMN failing_attempts integer NOT NULL DEFAULT 0`
})
