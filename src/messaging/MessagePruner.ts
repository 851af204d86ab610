/** Deletes sent and failed messages after `MESSAGE_RETENTION`. */
import { Duration } from "effect"
import { prune, pruning } from "../platform/background/Retention.ts"

/**
 * A message in another state is kept at any age, because it is sent again or an operator has to settle it. A message that changed
 * after the horizon is kept, because its campaign has to collect the outcome. A repeated send reads the message of its key, which has
 * the same time. So a message is kept while the project has a key that is as old, whatever the pruner of keys has left.
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
