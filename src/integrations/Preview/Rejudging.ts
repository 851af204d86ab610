/**
 * After a release whose schemas accept other values than before: staged records that were judged by the old ones are judged
 * anew when the background starts. Until then, for seconds, previews answer as the replicas of the release before do.
 */
import { Duration, Effect, Layer, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { Supervisor } from "../../platform/background/Supervisor.ts"
import { judgeAnew } from "./Staging.ts"

/** How long the judging may take. */
const stalledAfter = Duration.minutes(30)

export const layer = Layer.effectDiscard(
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const supervisor = yield* Supervisor
    // Once it is through there is nothing left to do, and it stays alive.
    yield* supervisor.supervise("preview judging", { stalledAfter }, (progress) =>
      Effect.andThen(judgeAnew(sql), Effect.asVoid(Effect.repeat(progress, Schedule.spaced(Duration.minutes(1)))))
    )
  })
)
