/** Deletes stored outcomes after `IDEMPOTENCY_RETENTION`. The batches are so small that no command waits for them. */
import { Clock, Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { forkPeriodic } from "../background/Periodic.ts"
import { Settings } from "../Settings.ts"
import { untraced } from "../telemetry/Telemetry.ts"
import { isAwake } from "../Moves.ts"

export const batch = 1_000
const pause = Duration.minutes(1)

/**
 * Deletes one batch, in each project the oldest outcomes first. SKIP LOCKED lets replicas share the work. `ctid` identifies the
 * rows, because it does not change while they are locked; a join by key could be planned as a read of the whole table.
 */
export const prune = (sql: SqlClient.SqlClient, horizon: Date) => sql`
  DELETE FROM idempotency_keys WHERE ctid = ANY(ARRAY(
    SELECT expired.row FROM projects p CROSS JOIN LATERAL (
      SELECT ctid AS row FROM idempotency_keys
      WHERE project_id = p.project_id AND ${isAwake(sql, "project_id")} AND created_at < ${horizon}
      ORDER BY created_at LIMIT ${sql.literal(String(batch))} FOR UPDATE SKIP LOCKED
    ) expired LIMIT ${sql.literal(String(batch))}
  ))
  RETURNING 1`

export const layer = Layer.effectDiscard(
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { idempotencyRetention } = yield* Settings

    const pruneBatch = Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const horizon = new Date(now - Duration.toMillis(idempotencyRetention))
      return (yield* prune(sql, horizon)).length === batch
    })

    yield* forkPeriodic("idempotency pruning", { interval: pause }, untraced(pruneBatch))
  })
)
