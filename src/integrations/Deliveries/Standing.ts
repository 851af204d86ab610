import { Effect } from "effect"
import type { SqlClient } from "effect/sql"

/** Of all projects: deliveries that are dead, and those whose lease has ended for a minute without anybody taking over. */
export const standing = Effect.fn("Deliveries.standing")(function* (sql: SqlClient.SqlClient) {
  const [row] = yield* sql<{ dead: number; abandoned: number }>`
    SELECT count(*) FILTER (WHERE status = 'dead')::int AS dead,
      count(*) FILTER (
        WHERE status = 'delivering' AND leased_until < now() - interval '1 minute'
      )::int AS abandoned
    FROM deliveries WHERE status IN ('dead', 'delivering')`
  return row ?? { dead: 0, abandoned: 0 }
})
