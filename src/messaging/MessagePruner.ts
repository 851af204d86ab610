/** Deletes sent and failed messages after `MESSAGE_RETENTION`. */
import { Duration } from "effect"
import { prune, pruning } from "../platform/background/Retention.ts"

/**
 * Keeps the messages that something still needs:
 *
 * - A message in another state is sent again, or an operator has to settle it.
 * - The campaign of a message has to collect the outcome, so a message that changed after the horizon stays.
 * - A repeated send reads the message of its idempotency key, and both are equally old. So a message stays while the project has
 *   a key that is as old.
 */
export const layer = pruning(
  "message pruning",
  ({ idempotencyRetention, messageRetention }) => Duration.max(messageRetention, idempotencyRetention),
  (sql, horizon) =>
    prune(sql, {
      table: "messages",
      age: "updated_at",
      horizon,
      condition: sql`AND created_at < ${horizon} AND status IN ('sent', 'failed') AND created_at < coalesce((
        SELECT created_at FROM idempotency_keys
        WHERE project_id = project.project_id AND created_at < 'infinity' ORDER BY created_at LIMIT 1
      ), 'infinity')`
    })
)
