/** Runs maintenance at intervals, such as pruning, measurements and repairs. */
import { Duration, Effect, Metric, Schedule } from "effect"
import { MetricsEnabled } from "../telemetry/MetricsEnabled.ts"
import { minDelay, maxDelay, Supervisor } from "./Supervisor.ts"

interface Options {
  /** Pause between the end of one run and the start of the next. */
  readonly interval: Duration.Duration
  /** The pause after a run that leaves more to do. Defaults to none. */
  readonly whenMore?: Duration.Duration
  /** Maximum time without a successful run. Defaults to ten intervals, at least `minStall`. */
  readonly stalledAfter?: Duration.Duration
}

/** Lower bound of the default of `stalledAfter`, because a run may wait this long for the database. */
const minStall = Duration.minutes(1)

/** The longest backoff after failed runs, before jitter, is the interval, clamped to these bounds. */
const maxPause = { minimum: Duration.seconds(1), maximum: maxDelay }

const failures = Metric.counter("background_failures_total", {
  description: "Runs of periodic background fibers that failed and are tried again",
  incremental: true
})

/**
 * Runs an effect at intervals, under supervision, until the scope is closed. The effect does a bounded piece of work, and returns
 * true if more is left to do: the pause before the next run is then `whenMore`. A failed run is logged, counted and retried with
 * backoff and jitter. After a defect, the supervisor restarts the loop.
 */
export const forkPeriodic = Effect.fnUntraced(function* <E, R>(
  name: string,
  { interval, stalledAfter = Duration.max(Duration.times(interval, 10), minStall), whenMore = Duration.zero }: Options,
  effect: Effect.Effect<boolean | void, E, R>
) {
  const supervisor = yield* Supervisor
  const measured = yield* MetricsEnabled
  const failed = Metric.withAttributes(failures, { fiber: name })
  const pause = Duration.clamp(interval, maxPause)
  const backoff = Schedule.min([Schedule.exponential(minDelay), Schedule.spaced(pause)]).pipe(Schedule.jittered)
  if (measured) yield* Metric.update(failed, 0)
  return yield* supervisor.supervise(name, { stalledAfter }, (progress) =>
    Effect.tap(effect, progress).pipe(
      Effect.tapError((error) =>
        Effect.annotateLogs(Effect.logWarning("A run of a background fiber failed", error), "fiber", name)
      ),
      Effect.tapError(() => (measured ? Metric.update(failed, 1) : Effect.void)),
      Effect.retry(backoff),
      Effect.flatMap((more) => Effect.sleep(more === true ? whenMore : interval)),
      Effect.forever
    )
  )
})
