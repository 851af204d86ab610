/** Adds the counts of refused requests by key, for the overview of the console and `doctor`. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  // Three rows a key at most: 401, 403 and 429. `since` begins again after a day.
  yield* sql`
    CREATE TABLE refused_requests (
      project_id text COLLATE "C" NOT NULL,
      key_id     text COLLATE "C" NOT NULL,
      status     integer NOT NULL CHECK (status IN (401, 403, 429)),
      count      bigint NOT NULL,
      since      timestamptz(3) NOT NULL,
      last_at    timestamptz(3) NOT NULL,
      PRIMARY KEY (project_id, key_id, status)
    )`
})
