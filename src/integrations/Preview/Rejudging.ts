/**
 * After a release whose schemas take other values than before: what stands judged by the old ones is judged anew when the
 * background starts. Until then, for seconds, previews say what the replicas of the release before say, too.
 */
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { judgeAnew } from "./Staging.ts"

export const layer = Layer.effectDiscard(
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    yield* judgeAnew(sql).pipe(
      Effect.catchCause((cause) => Effect.logWarning("Staged records were not judged anew", cause)),
      Effect.forkScoped
    )
  })
)
