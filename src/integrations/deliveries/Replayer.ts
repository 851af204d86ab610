/** The fiber that makes the deliveries of replays. A worker locks the row of a replay, so that other workers skip it. */
import { Cause, Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { forkPeriodic } from "../../work/Periodic.ts"
import { once } from "../../sql/Database.ts"
import { Notifier } from "../../outbox/Notifier.ts"
import { Settings } from "../../platform/Settings.ts"
import { untraced } from "../../telemetry/Telemetry.ts"
import { endFormer, listRunning, type Replay, step } from "./Replays/Step.ts"

/** Pauses after a run without and with running replays. */
const interval = Duration.seconds(1)
const whenMore = Duration.millis(100)

export const layer = Layer.effectDiscard(
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const notifier = yield* Notifier
    const { webhooks } = yield* Settings

    /** Takes a step of a replay. A failure is logged, and stops no other replay. */
    const go = Effect.fnUntraced(
      function* (replay: Replay) {
        const [done] = yield* once(step(sql, replay, webhooks.endpointConcurrency))
        if ((done?.made ?? 0) > 0) yield* notifier.appended(replay.projectId, [replay.installationId])
      },
      (effect, { id, projectId }) =>
        Effect.catchCauseIf(
          effect,
          (cause) => !Cause.hasInterrupts(cause),
          (cause) => Effect.logWarning(`A step of the replay ${id} of project ${projectId} failed`, cause)
        )
    )

    let isFirst = true
    const run = Effect.gen(function* () {
      if (isFirst) yield* once(endFormer(sql))
      isFirst = false
      const replays = yield* once(listRunning(sql))
      yield* Effect.forEach(replays, go, { discard: true })
      return replays.length > 0
    })
    yield* forkPeriodic("replays", { interval, whenMore }, untraced(run))
  })
)
