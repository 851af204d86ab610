/**
 * Supervision of background fibers. A supervised loop runs until its scope closes:
 *
 *   running ── failure, defect or unexpected end ──▶ waiting ── backoff has passed ──▶ running
 *      └──────────── the scope closes ───────────────────┴──▶ ended
 *
 * Each failure is logged with its cause and counted. The backoff doubles from `minDelay` to `maxDelay`, with jitter,
 * and is `minDelay` again after a run of at least `maxDelay`. A loop that reports no progress for its `stalledAfter` is
 * stalled, whatever the reason. That is logged, and a gauge is set, until the loop reports progress again.
 */
import { Cause, Clock, Context, Duration, Effect, Fiber, Layer, Metric, Random, Schedule, type Scope } from "effect"
import { monotonicMillis } from "../platform/MonotonicTime.ts"
import { logOften } from "../telemetry/Logging.ts"
import { counter, gauge, MetricsEnabled, untraced } from "../telemetry/Telemetry.ts"

const minDelay = Duration.millis(250)
const maxDelay = Duration.seconds(30)
const watchEvery = Duration.seconds(1)

interface Options {
  readonly stalledAfter: Duration.Duration
  /** Whether the loop goes on while `end` interrupts the others. */
  readonly outlives?: boolean
}

/** A loop under supervision. It calls `progress` to report progress. The resources of its scope are released after each run. */
type Loop<E, R> = (progress: Effect.Effect<void>) => Effect.Effect<void, E, R>

export class Supervisor extends Context.Service<
  Supervisor,
  {
    /** Forks a loop in the current scope and restarts it whenever it fails or ends. */
    readonly supervise: <E, R>(
      name: string,
      options: Options,
      loop: Loop<E, R>
    ) => Effect.Effect<Fiber.Fiber<void>, never, Exclude<R, Scope.Scope> | Scope.Scope>
    /**
     * Interrupts all loops at once. If PostgreSQL hangs, the driver takes 5 s to end a statement, and the scopes would interrupt
     * one loop after the other.
     */
    readonly end: Effect.Effect<void>
    /** Whether `end` has begun. What a loop does uninterruptibly may go on for some time. */
    readonly isEnding: () => boolean
  }
>()("developer-api-service/work/Supervisor") {
  static readonly layer = Layer.effect(
    Supervisor,
    Effect.suspend(() => make)
  )
}

/** The state of a loop. Times are monotonic, in milliseconds. */
interface Entry {
  readonly name: string
  readonly stalledAfter: number
  progressAt: number
  isStalled: boolean
  /** What `end` interrupts. */
  fiber?: Fiber.Fiber<void>
}

const restarts = counter("background_restarts_total", "Restarts of background fibers after a failure")
const stalledGauge = gauge("background_stalled", "1 while a background fiber reports no progress")

const make = Effect.gen(function* () {
  const clock = yield* Clock.Clock
  const measured = yield* MetricsEnabled
  const entries = new Set<Entry>()

  const isStalled = ({ progressAt, stalledAfter }: Entry) => monotonicMillis(clock) - progressAt >= stalledAfter

  const measure = (entry: Entry) =>
    measured
      ? Metric.update(Metric.withAttributes(stalledGauge, { fiber: entry.name }), entry.isStalled ? 1 : 0)
      : Effect.void

  const watch = Effect.forEach(
    entries,
    (entry) => {
      if (isStalled(entry) === entry.isStalled) return Effect.void
      entry.isStalled = !entry.isStalled
      const log = entry.isStalled
        ? Effect.logError("A background fiber makes no progress")
        : Effect.logInfo("A background fiber makes progress again")
      return Effect.andThen(Effect.annotateLogs(log, "fiber", entry.name), measure(entry))
    },
    { discard: true }
  )
  yield* Effect.forkScoped(Effect.forever(Effect.delay(watch, watchEvery)))

  const delayAfter = (failures: number) =>
    Effect.map(Random.next, (random) => {
      const full = Math.min(Duration.toMillis(minDelay) * 2 ** (failures - 1), Duration.toMillis(maxDelay))
      return Duration.millis(full * (0.8 + 0.4 * random))
    })

  const supervise = Effect.fnUntraced(function* <E, R>(
    name: string,
    { outlives = false, stalledAfter }: Options,
    loop: Loop<E, R>
  ) {
    const entry: Entry = {
      name,
      stalledAfter: Duration.toMillis(stalledAfter),
      progressAt: monotonicMillis(clock),
      isStalled: false
    }
    const progress = Effect.sync(() => void (entry.progressAt = monotonicMillis(clock)))
    let failures = 0

    const run = Effect.gen(function* () {
      const startedAt = monotonicMillis(clock)
      const exit = yield* Effect.exit(Effect.scoped(loop(progress)))
      failures = monotonicMillis(clock) - startedAt >= Duration.toMillis(maxDelay) ? 1 : failures + 1
      const delay = yield* delayAfter(failures)
      const cause = exit._tag === "Failure" ? exit.cause : Cause.die("The loop has ended")
      yield* Effect.logError("A background fiber failed and is restarted", cause).pipe(
        Effect.annotateLogs({ fiber: name, failures, delay: Duration.format(delay) })
      )
      if (measured) yield* Metric.update(Metric.withAttributes(restarts, { fiber: name }), 1)
      yield* Effect.sleep(delay)
    })

    entries.add(entry)
    yield* measure(entry)
    if (measured) yield* Metric.update(Metric.withAttributes(restarts, { fiber: name }), 0)
    yield* Effect.addFinalizer(() => Effect.sync(() => void entries.delete(entry)))
    const fiber = yield* Effect.forkScoped(Effect.forever(run))
    if (!outlives) entry.fiber = fiber
    return fiber
  })

  let isEnding = false
  const end = Effect.suspend(() => {
    isEnding = true
    return Fiber.interruptAll([...entries].flatMap(({ fiber = [] }) => fiber))
  })

  return { supervise, end, isEnding: () => isEnding }
})

interface Periodic {
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

const failures = counter(
  "background_failures_total",
  "Runs of periodic background fibers that failed and are tried again"
)

/** Runs a measurement every 15 s, if metrics are recorded. */
export const forkMeasurement = Effect.fnUntraced(function* <E, R>(name: string, measure: Effect.Effect<void, E, R>) {
  if (yield* MetricsEnabled) yield* forkPeriodic(name, { interval: Duration.seconds(15) }, untraced(measure))
})

/**
 * Runs maintenance (pruning, measurements, repairs) at intervals, under supervision, until the scope is closed. The effect does a
 * bounded piece of work, and returns true if more is left to do: the pause before the next run is then `whenMore`. A failed run is
 * logged, counted and retried with backoff and jitter. After a defect, the supervisor restarts the loop.
 */
export const forkPeriodic = Effect.fnUntraced(function* <E, R>(
  name: string,
  { interval, stalledAfter = Duration.max(Duration.times(interval, 10), minStall), whenMore = Duration.zero }: Periodic,
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
      Effect.tapError((error) => logOften("A run of a background fiber failed", error)),
      Effect.annotateLogs("fiber", name),
      Effect.tapError(() => (measured ? Metric.update(failed, 1) : Effect.void)),
      Effect.retry(backoff),
      Effect.flatMap((more) => Effect.sleep(more === true ? whenMore : interval)),
      Effect.forever
    )
  )
})
