/** Deletes stored outcomes after `IDEMPOTENCY_RETENTION`, in batches small enough that no command waits for them. */
import { Clock, Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { forkPeriodic } from "../background/Periodic.ts"
import { Settings } from "../Settings.ts"
import { untraced } from "../Telemetry.ts"

const batch = 1_000
const pause = Duration.minutes(1)

export const layer = Layer.effectDiscard(
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { idempotencyRetention } = yield* Settings

    /** Deletes one batch, oldest first in each project; SKIP LOCKED lets replicas share the work. */
    const prune = Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const horizon = new Date(now - Duration.toMillis(idempotencyRetention))
      const rows = yield* sql`
        DELETE FROM idempotency_keys USING (
          SELECT expired.* FROM projects p CROSS JOIN LATERAL (
            SELECT project_id, key FROM idempotency_keys
            WHERE project_id = p.project_id AND created_at < ${horizon}
            ORDER BY created_at LIMIT ${batch} FOR UPDATE SKIP LOCKED
          ) expired LIMIT ${batch}
        ) expired
        WHERE idempotency_keys.project_id = expired.project_id AND idempotency_keys.key = expired.key
        RETURNING 1`
      return rows.length
    })

    yield* forkPeriodic(
      "idempotency pruning",
      { interval: pause },
      Effect.repeat(untraced(prune), { while: (deleted) => deleted === batch })
    )
  })
)
