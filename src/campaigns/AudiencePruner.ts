/** Deletes audiences that no campaign references any more, in batches so small that commands do not wait for them. */
import { Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { forkPeriodic } from "../platform/background/Periodic.ts"
import { untraced } from "../platform/Telemetry.ts"

const batch = 1_000
const pause = Duration.minutes(1)

export const layer = Layer.effectDiscard(
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient

    /**
     * Deletes a batch of an audience's recipients, and the audience with the last batch. SKIP LOCKED lets replicas
     * share the work.
     */
    const prune = Effect.gen(function* () {
      const rows = yield* sql`
        WITH abandoned AS MATERIALIZED (
          SELECT project_id, id FROM audiences WHERE abandoned_at IS NOT NULL
          ORDER BY project_id, id LIMIT 1 FOR UPDATE SKIP LOCKED
        ),
        batch AS MATERIALIZED (
          SELECT recipient.* FROM abandoned, LATERAL (
            SELECT project_id, audience_id, position FROM campaign_recipients
            WHERE project_id = abandoned.project_id AND audience_id = abandoned.id
            ORDER BY position LIMIT ${batch}
          ) recipient
        ),
        recipients AS (
          DELETE FROM campaign_recipients USING batch
          WHERE campaign_recipients.project_id = batch.project_id
            AND campaign_recipients.audience_id = batch.audience_id AND campaign_recipients.position = batch.position
        ),
        removed AS (
          DELETE FROM audiences USING abandoned
          WHERE audiences.project_id = abandoned.project_id AND audiences.id = abandoned.id
            AND (SELECT count(*) FROM batch) < ${batch}
        )
        SELECT FROM abandoned`
      return rows.length > 0
    })

    yield* forkPeriodic(
      "audience pruning",
      { interval: pause },
      Effect.repeat(untraced(prune), { while: (found) => found })
    )
  })
)
