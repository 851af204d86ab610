/** Operators: an audit of their actions, links to the console, and sessions that a sign-out has ended. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`
    CREATE TABLE audit_entries (
      project_id text COLLATE "C" NOT NULL REFERENCES projects,
      id         text COLLATE "C" NOT NULL,
      at         timestamptz(3) NOT NULL,
      actor      text NOT NULL,
      action     text NOT NULL,
      target     text NOT NULL,
      detail     jsonb NOT NULL,
      PRIMARY KEY (project_id, id)
    )`

  // Unused links to the console. A link is valid for all projects, so no project leads the key.
  yield* sql`
    CREATE TABLE console_links (
      digest     bytea PRIMARY KEY,
      expires_at timestamptz(3) NOT NULL
    )`

  // Sessions of the console that a sign-out has ended. A row is needed until the cookie of its session expires. A session is
  // valid for all projects, so no project leads the key.
  yield* sql`
    CREATE TABLE console_ended_sessions (
      session_id uuid PRIMARY KEY,
      expires_at timestamptz(3) NOT NULL
    )`
})
