/** Maintenance at intervals: pruning, measuring, repairs. */
import { Duration, Effect } from "effect"
import { Supervisor } from "./Supervisor.ts"

export interface Options {
  /** Pause between the end of one run and the start of the next. */
  readonly interval: Duration.Duration
  /** Maximum time without a successful run. Defaults to ten intervals, at least `shortestStall`. */
  readonly stalledAfter?: Duration.Duration
}

/** A run may wait for the database that long and be tried again. */
const shortestStall = Duration.minutes(1)

/**
 * Runs an effect at intervals, under supervision, for as long as the scope lives. A failure is logged and the next run
 * comes after the interval; a defect restarts the loop with backoff.
 */
export const forkPeriodic = Effect.fnUntraced(function* <E, R>(
  name: string,
  { interval, stalledAfter = Duration.max(Duration.times(interval, 10), shortestStall) }: Options,
  effect: Effect.Effect<unknown, E, R>
) {
  const supervisor = yield* Supervisor
  return yield* supervisor.supervise(name, { stalledAfter }, (progress) =>
    Effect.andThen(effect, progress).pipe(
      Effect.catch((error) =>
        Effect.annotateLogs(Effect.logWarning("A run of a background fiber failed", error), "fiber", name)
      ),
      Effect.andThen(Effect.sleep(interval)),
      Effect.forever
    )
  )
})
