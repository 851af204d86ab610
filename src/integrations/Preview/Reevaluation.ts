/**
 * Evaluates batches again after a release whose schemas accept other values, when the background starts. Until then,
 * for seconds, previews answer like the replicas of the earlier release.
 */
import { Duration, Effect, Layer, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { Supervisor } from "../../platform/background/Supervisor.ts"
import { reevaluate } from "./Staging.ts"

/** Maximum duration of the evaluation. */
const stalledAfter = Duration.minutes(30)

export const layer = Layer.effectDiscard(
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const supervisor = yield* Supervisor
    // After the evaluation the fiber stays alive without work.
    yield* supervisor.supervise("preview evaluation", { stalledAfter }, (progress) =>
      Effect.andThen(reevaluate(sql), Effect.asVoid(Effect.repeat(progress, Schedule.spaced(Duration.minutes(1)))))
    )
  })
)
