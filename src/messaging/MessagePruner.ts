/** Deletes sent and failed messages after `MESSAGE_RETENTION`, or `IDEMPOTENCY_RETENTION` if that is longer. */
import { Duration } from "effect"
import { prune, pruning } from "../platform/background/Retention.ts"

/**
 * Some messages are kept for longer:
 *
 * - A message that is neither sent nor failed: it needs another attempt or an operator.
 * - A message that was changed within the retention: its campaign may not have collected the outcome yet.
 * - A message that is not older than the oldest idempotency key of its project: a repeated send may read the message.
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
