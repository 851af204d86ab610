/** Adds the erasures of clients whose texts are still to be removed (`campaigns/ErasedTexts.ts`). */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`
    CREATE TABLE erasures (
      project_id       text COLLATE "C" NOT NULL,
      id               text COLLATE "C" NOT NULL,
      client_id        text COLLATE "C" NOT NULL,
      -- The conversations of the client, which no longer name it.
      conversation_ids text[] NOT NULL,
      erased_at        timestamptz(3) NOT NULL DEFAULT now(),
      -- Whether a pass has found no more texts. The last pass comes a minute after the erasure, and removes the row.
      passed           boolean NOT NULL DEFAULT false,
      PRIMARY KEY (project_id, id)
    )`
})
