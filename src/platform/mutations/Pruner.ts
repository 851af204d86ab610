/** Deletes idempotency keys, with their stored outcomes, after `IDEMPOTENCY_RETENTION`. */
import { prune, pruning } from "../background/Retention.ts"

export const layer = pruning(
  "idempotency pruning",
  ({ idempotencyRetention }) => idempotencyRetention,
  (sql, horizon) => prune(sql, { table: "idempotency_keys", age: "created_at", horizon })
)
