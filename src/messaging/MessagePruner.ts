/** Deletes sent and failed messages after `MESSAGE_RETENTION`. */
import { Duration } from "effect"
import { prune, pruning } from "../platform/background/Retention.ts"

/**
 * Some messages are kept for longer:
 *
 * - A message that is neither sent nor failed needs another attempt or an operator.
 * - A campaign has to collect the outcome of its message, so the age of a message counts from its last change.
 * - A repeated send reads the message of its idempotency key. So a message stays while the project has a key that is at least as
 *   old as the message.
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
