/** Separates the health of a webhook's URL from the health of its earlier URLs, and counts the failures of a failing period. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // The number of the URL: 1, and one more after each change. The health belongs to the URL with the same number.
  yield* sql`ALTER TABLE webhooks ADD COLUMN url_version integer NOT NULL DEFAULT 1`
  yield* sql`ALTER TABLE endpoint_health ADD COLUMN url_version integer NOT NULL DEFAULT 1`
  // 'failing_since' is the start of the failing period. After a long time without an attempt, another period begins.
  yield* sql`ALTER TABLE endpoint_health ADD COLUMN last_failed_at timestamptz(3)`
  yield* sql`ALTER TABLE endpoint_health ADD COLUMN failing_attempts integer NOT NULL DEFAULT 0`
})
