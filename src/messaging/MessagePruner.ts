/** Deletes sent and failed messages after `MESSAGE_RETENTION`, in batches so small that commands do not wait for long. */
import { Clock, Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { forkPeriodic } from "../platform/background/Periodic.ts"
import { Settings } from "../platform/Settings.ts"
import { untraced } from "../platform/telemetry/Telemetry.ts"
import { isAwake } from "../platform/Moves.ts"

const batch = 1_000
const pause = Duration.minutes(1)

export const layer = Layer.effectDiscard(
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { idempotencyRetention, messageRetention } = yield* Settings
    const retention = Duration.max(messageRetention, idempotencyRetention)

    /**
     * Deletes a batch, in each project the messages that changed longest ago. A message in another state is kept at any age,
     * because it is sent again or an operator has to settle it. A message that changed after the horizon is kept, because its
     * campaign has to collect the outcome. A repeated send reads the message of its key, which has the same time. So a message is
     * kept while the project has a key that is as old, whatever the pruner of keys has left. SKIP LOCKED lets replicas share the
     * work. For `ctid` see the pruning of idempotency keys.
     */
    const prune = Effect.gen(function* () {
      const horizon = new Date((yield* Clock.currentTimeMillis) - Duration.toMillis(retention))
      const rows = yield* sql`
        DELETE FROM messages WHERE ctid = ANY(ARRAY(
          SELECT expired.row FROM projects, LATERAL (
            SELECT ctid AS row FROM messages
            WHERE project_id = projects.project_id AND ${isAwake(sql, "project_id")}
              AND created_at < ${horizon} AND updated_at < ${horizon}
              AND status IN ('sent', 'failed')
              AND created_at < coalesce((
                SELECT created_at FROM idempotency_keys
                WHERE project_id = projects.project_id AND created_at < 'infinity' ORDER BY created_at LIMIT 1
              ), 'infinity')
            ORDER BY updated_at LIMIT ${sql.literal(String(batch))} FOR UPDATE SKIP LOCKED
          ) expired LIMIT ${sql.literal(String(batch))}
        ))
        RETURNING 1`
      return rows.length === batch
    })

    yield* forkPeriodic("message pruning", { interval: pause }, untraced(prune))
  })
)
