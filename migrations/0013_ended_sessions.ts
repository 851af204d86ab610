/** Sessions of the console that a sign-out has ended. A row is needed until the cookie of its session expires. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // A session is valid for all projects, so no project leads the key.
  yield* sql`
    CREATE TABLE console_ended_sessions (
      session_id uuid PRIMARY KEY,
      expires_at timestamptz(3) NOT NULL
    )`
})
