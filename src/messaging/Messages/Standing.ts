/** Counts of messages for `doctor`. */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"

/**
 * Counts, over all projects, the messages that wait for an operator, and those whose lease ended a minute ago without a
 * takeover.
 */
export const standing = Effect.fn("Messages.standing")(function* (sql: SqlClient.SqlClient) {
  const [row] = yield* sql<{ unsettled: number; abandoned: number }>`
    SELECT count(*) FILTER (WHERE status = 'unknown' AND available_at IS NULL)::int AS unsettled,
      count(*) FILTER (WHERE attempting AND available_at < now() - interval '1 minute')::int AS abandoned
    FROM messages WHERE status = 'unknown' OR attempting`
  return row ?? { unsettled: 0, abandoned: 0 }
})
