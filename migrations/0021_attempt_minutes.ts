/** Counts the attempts of deliveries by minute. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // Each worker has rows of its own, so that no two statements wait for a row. The rows of the project '' count the attempts
  // of all projects, including projects that are deleted later.
  yield* sql`
    CREATE TABLE attempt_minutes (
      project_id text COLLATE "C" NOT NULL,
      minute     timestamptz(0) NOT NULL,
      worker_id  bigint NOT NULL,
      delivered  boolean NOT NULL,
      -- The number of a range of durations. There are four ranges for each doubling.
      bucket     smallint NOT NULL,
      attempts   integer NOT NULL,
      PRIMARY KEY (project_id, minute, worker_id, delivered, bucket)
    ) WITH (fillfactor = 50)`
})
