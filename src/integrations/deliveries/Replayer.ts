/** The fiber that creates the deliveries of replays. A worker locks the row of a replay, so that other workers skip it. */
import { Cause, Context, Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { Supervisor } from "../../platform/background/Supervisor.ts"
import { clients, statement } from "../../platform/database/Database.ts"
import { Notifier } from "../../platform/outbox/Notifier.ts"
import { Settings } from "../../platform/Settings.ts"
import { untraced } from "../../platform/telemetry/Telemetry.ts"
import { empty, end, release, type Replay, type Waiting, listRunnable } from "./Replays/Release.ts"

/**
 * Pauses after a run: `interval` if it made deliveries, `whenFull` if runnable replays made none, `whenIdle` without runnable
 * replays.
 */
const interval = Duration.millis(100)
const whenFull = Duration.millis(250)
const whenIdle = Duration.seconds(1)
/** If no run ends within this time, the fiber counts as stalled. A statement may take 4 s and be tried again. */
const stalledAfter = Duration.minutes(1)

export const layer = Layer.effectDiscard(
  Effect.gen(function* () {
    const sql = Context.get(yield* Layer.build(clients.maintenance), SqlClient.SqlClient)
    const supervisor = yield* Supervisor
    const notifier = yield* Notifier
    const { webhooks } = yield* Settings
    const terms = { concurrency: webhooks.endpointConcurrency, interval: Duration.toMillis(interval) }

    const steps = {
      release: (replay: Replay) => release(sql, replay, terms),
      empty: (replay: Replay) => empty(sql, replay),
      end: (replay: Replay) => end(sql, replay)
    }

    /** Returns the number of deliveries made. A failure is logged and counts as 0. */
    const step = Effect.fnUntraced(
      function* (replay: Waiting) {
        const rows = yield* statement(steps[replay.next](replay))
        const made = rows[0]?.made ?? 0
        if (made > 0) yield* notifier.appended(replay.projectId, [replay.installationId])
        return made
      },
      // Also catches defects, so that the other replays go on. For example, an INSERT fails if the event of the delivery is
      // pruned meanwhile.
      (effect, { id, projectId }) =>
        Effect.catchCauseIf(
          effect,
          (cause) => !Cause.hasInterrupts(cause),
          (cause) => Effect.as(Effect.logWarning(`A step of the replay ${id} of project ${projectId} failed`, cause), 0)
        )
    )

    /** Takes a step of each runnable replay. Returns the pause until the next run. */
    const run = Effect.gen(function* () {
      const replays = yield* statement(listRunnable(sql))
      if (replays.length === 0) return whenIdle
      const made = yield* Effect.forEach(replays, step)
      return made.some((count) => count > 0) ? interval : whenFull
    })

    yield* supervisor.supervise("replays", { stalledAfter }, (progress) =>
      untraced(run).pipe(
        Effect.catch((error) => Effect.as(Effect.logWarning("A run of the replays failed", error), whenIdle)),
        Effect.tap(progress),
        Effect.flatMap(Effect.sleep),
        Effect.forever
      )
    )
  })
)
