/** Records the results of sends in batches. */
import { Cause, Duration, Effect, Exit, Latch } from "effect"
import type { SqlClient } from "effect/sql"
import { statement } from "../../platform/Database.ts"
import { databaseNow } from "../../platform/DatabaseClock.ts"
import { Supervisor } from "../../platform/background/Supervisor.ts"
import { record, type Result } from "./Results.ts"

const batchSize = 500
const stalledAfter = Duration.seconds(30)
/** Delay before a batch is recorded again while the database is unreachable. Leases may expire meanwhile. */
const retryAfter = Duration.millis(500)
/** Longest wait for results. */
const idleAfter = Duration.seconds(5)
/** Maximum duration of the last batch when the process ends. */
const lastBatchTimeout = Duration.seconds(2)

export interface Recorder {
  readonly finish: (result: Result) => Effect.Effect<void>
  /** Adds to the number of claims whose results are expected. */
  readonly expect: (claims: number) => void
  /** Returns the number of claims whose result is not recorded yet. */
  readonly open: () => number
}

/**
 * Starts a recorder. When its scope closes it records the remaining results, so make it before the fibers that produce
 * results.
 */
export const make = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
  const supervisor = yield* Supervisor
  const clock = yield* databaseNow(sql)
  let results: Array<Result> = []
  const arrived = yield* Latch.make(false)
  let open = 0

  const recorded = (batch: ReadonlyArray<Result>) => Effect.flatMap(clock, (now) => statement(record(sql, now, batch)))

  yield* Effect.addFinalizer(() =>
    Effect.suspend(() => (results.length === 0 ? Effect.void : recorded(results))).pipe(
      Effect.timeoutOption(lastBatchTimeout),
      Effect.ignore
    )
  )

  const settle = Effect.uninterruptibleMask((restore) =>
    Effect.suspend(() => {
      const batch = results.splice(0, batchSize)
      if (results.length === 0) arrived.closeUnsafe()
      if (batch.length === 0) return Effect.void
      return Effect.onExit(restore(recorded(batch)), (exit) =>
        Effect.sync(() => {
          // A batch that fails by a defect is dropped, so that it does not block the next ones; its leases expire.
          if (Exit.isSuccess(exit) || Cause.hasDies(exit.cause)) open -= batch.length
          else {
            results = [...batch, ...results]
            arrived.openUnsafe()
          }
        })
      )
    })
  )

  yield* supervisor.supervise("campaign results", { stalledAfter }, (progress) =>
    Effect.timeoutOption(arrived.await, idleAfter).pipe(
      Effect.andThen(settle),
      Effect.andThen(progress),
      Effect.catch((error) =>
        Effect.andThen(Effect.logWarning("Results of sends were not recorded", error), Effect.sleep(retryAfter))
      ),
      Effect.forever
    )
  )

  const recorder: Recorder = {
    finish: (result) =>
      Effect.sync(() => {
        results.push(result)
        arrived.openUnsafe()
      }),
    expect: (claims) => void (open += claims),
    open: () => open
  }
  return recorder
})
