/** Supervised loops, under a test clock. */
import { assert, type Body, describe, effectOf, it } from "../support/Vitest.ts"
import { Deferred, Duration, Effect, Exit, Fiber, Layer, Logger, Metric, Random, Scope } from "effect"
import { TestClock } from "effect/testing"
import { forkPeriodic, Supervisor } from "../../src/work/Supervisor.ts"
import { MetricsEnabled } from "../../src/telemetry/Telemetry.ts"

const stalledAfter = Duration.seconds(10)

/** Declares a test of a supervisor without jitter, with its log lines and separate metrics. */
const test = (title: string, run: (lines: ReadonlyArray<string>) => Body<Supervisor | Scope.Scope>) =>
  it.effect(title, () => {
    const lines: Array<string> = []
    const logger = Logger.make(({ message }) => void lines.push(String(message)))
    return effectOf(run(lines)).pipe(
      Effect.provide(
        Layer.provideMerge(Supervisor.layer, Layer.merge(Logger.layer([logger]), Layer.succeed(MetricsEnabled, true)))
      ),
      Effect.provideService(Metric.MetricRegistry, new Map()),
      Effect.provideService(Random.Random, { nextIntUnsafe: () => 0, nextDoubleUnsafe: () => 0.5 })
    )
  })

/** Reads a metric of a fiber. */
const measured = (id: string, fiber = "loop") =>
  Effect.map(Metric.snapshot, (all) => {
    const found = all.find((metric) => metric.id === id && metric.attributes?.["fiber"] === fiber)
    if (found?.type === "Counter") return Number(found.state.count)
    return found?.type === "Gauge" ? Number(found.state.value) : undefined
  })

/** Runs every fiber that does not wait for the clock. */
const settle = TestClock.adjust(0)

describe("the end of the process", () => {
  test("interrupts the loops at once, however long each takes, but for one that outlives them", function* () {
    const { end, supervise } = yield* Supervisor
    let running = 0
    const slow = Effect.suspend(() => {
      running++
      return Effect.never
    }).pipe(
      Effect.onInterrupt(() =>
        Effect.andThen(
          Effect.sleep("5 seconds"),
          Effect.sync(() => void running--)
        )
      )
    )
    for (const name of ["first", "second", "third"]) yield* supervise(name, { stalledAfter }, () => slow)
    let hasEnded = false
    yield* supervise("last", { stalledAfter, outlives: true }, () =>
      Effect.onInterrupt(Effect.never, () => Effect.sync(() => void (hasEnded = true)))
    )
    yield* settle
    assert.strictEqual(running, 3)
    const ended = yield* Effect.forkChild(end)
    yield* TestClock.adjust("5 seconds")
    yield* Fiber.join(ended)
    assert.strictEqual(running, 0)
    assert.isFalse(hasEnded)
  })
})

describe("a supervised loop", () => {
  test("restarts after a defect, a failure and an end, with a backoff that doubles up to 30 seconds", function* (lines) {
    const { supervise } = yield* Supervisor
    let starts = 0
    const ends = [Effect.die(new Error("broken")), Effect.fail("refused"), Effect.void]
    yield* supervise("loop", { stalledAfter }, () => Effect.suspend(() => ends[starts++ % 3] ?? Effect.void))
    yield* settle
    assert.strictEqual(starts, 1)
    for (const [index, delay] of [250, 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000].entries()) {
      yield* TestClock.adjust(delay - 1)
      assert.strictEqual(starts, index + 1, `before ${delay} ms`)
      yield* TestClock.adjust(1)
      assert.strictEqual(starts, index + 2, `after ${delay} ms`)
    }
    const restarts = lines.filter((line) => line.startsWith("A background fiber failed"))
    assert.strictEqual(restarts.length, 10)
    assert.strictEqual(yield* measured("background_restarts_total"), 10)
  })

  test("starts the backoff anew after it has run for 30 seconds", function* () {
    const { supervise } = yield* Supervisor
    let starts = 0
    yield* supervise("loop", { stalledAfter }, () =>
      Effect.suspend(() =>
        ++starts === 4 ? Effect.andThen(Effect.sleep("30 seconds"), Effect.die("late")) : Effect.die("soon")
      )
    )
    yield* settle
    yield* TestClock.adjust(250 + 500 + 1000)
    assert.strictEqual(starts, 4)
    yield* TestClock.adjust("30 seconds")
    assert.strictEqual(starts, 4)
    yield* TestClock.adjust(250)
    assert.strictEqual(starts, 5)
  })

  test("restarts when only the loop is interrupted, and ends silently with its scope", function* (lines) {
    const { supervise } = yield* Supervisor
    const scope = yield* Scope.make()
    let starts = 0
    const fiber = yield* Scope.provide(
      supervise("loop", { stalledAfter }, () =>
        Effect.suspend(() => (++starts === 1 ? Effect.interrupt : Effect.never))
      ),
      scope
    )
    yield* settle
    yield* TestClock.adjust(250)
    assert.strictEqual(starts, 2)
    assert.strictEqual(lines.length, 1)
    yield* TestClock.adjust(stalledAfter)
    const before = lines.length
    yield* Scope.close(scope, Exit.void)
    assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(fiber)))
    assert.strictEqual(lines.length, before)
  })

  test("is stalled for as long as it reports no progress, by the gauge", function* (lines) {
    const { supervise } = yield* Supervisor
    const go = yield* Deferred.make<void>()
    yield* supervise("loop", { stalledAfter }, (progress) =>
      Deferred.await(go).pipe(Effect.andThen(progress), Effect.andThen(Effect.never))
    )
    const gauge = measured("background_stalled")
    yield* settle
    assert.strictEqual(yield* gauge, 0)
    yield* TestClock.adjust("9 seconds")
    assert.strictEqual(yield* gauge, 0)
    yield* TestClock.adjust("1 second")
    assert.strictEqual(yield* gauge, 1)
    yield* Deferred.succeed(go, undefined)
    yield* TestClock.adjust("1 second")
    assert.strictEqual(yield* gauge, 0)
    assert.strictEqual(lines.length, 2)
  })
})

describe("a periodic effect", () => {
  test("is tried again with backoff after a failure and after a defect, and goes on at its interval", function* (lines) {
    let runs = 0
    yield* forkPeriodic(
      "upkeep",
      { interval: Duration.hours(1) },
      Effect.suspend(() => {
        runs++
        return runs <= 3 ? Effect.fail("away") : runs === 4 ? Effect.die("broken") : Effect.void
      })
    )
    yield* settle
    assert.strictEqual(runs, 1)
    // The last delay is that of a restart.
    for (const [at, delay] of [250, 500, 1_000, 250].entries()) {
      yield* TestClock.adjust(delay)
      assert.strictEqual(runs, at + 2)
    }
    yield* TestClock.adjust("59 minutes")
    assert.strictEqual(runs, 5)
    yield* TestClock.adjust("1 minute")
    assert.strictEqual(runs, 6)
    assert.strictEqual(lines.length, 4)
  })

  test("goes on without the interval while it leaves more to do, and each batch is progress", function* () {
    let batches = 0
    const options = {
      interval: Duration.minutes(1),
      stalledAfter: Duration.seconds(30),
      whenMore: Duration.seconds(5)
    }
    yield* forkPeriodic(
      "upkeep",
      options,
      Effect.map(Effect.sleep("5 seconds"), () => ++batches < 10)
    )
    for (let seconds = 1; seconds < 95; seconds++) {
      yield* TestClock.adjust("1 second")
      assert.strictEqual(yield* measured("background_stalled", "upkeep"), 0, `after ${seconds} s`)
    }
    assert.strictEqual(batches, 9)
    yield* TestClock.adjust("1 second")
    assert.strictEqual(batches, 10)
    yield* TestClock.adjust("64 seconds")
    assert.strictEqual(batches, 10)
    yield* TestClock.adjust("1 second")
    assert.strictEqual(batches, 11)
  })

  test("is stalled once no run has succeeded for ten intervals", function* () {
    yield* forkPeriodic("upkeep", { interval: Duration.seconds(10) }, Effect.fail("away"))
    yield* TestClock.adjust("99 seconds")
    assert.strictEqual(yield* measured("background_stalled", "upkeep"), 0)
    yield* TestClock.adjust("1 second")
    assert.strictEqual(yield* measured("background_stalled", "upkeep"), 1)
  })

  test("writes few lines while all fail, as when the database is away", function* (lines) {
    const names = Array.from({ length: 20 }, (_, n) => `upkeep ${n}`)
    for (const name of names) yield* forkPeriodic(name, { interval: Duration.seconds(1) }, Effect.fail("away"))
    yield* TestClock.adjust("1 minute")
    assert.isAbove((yield* measured("background_failures_total", "upkeep 19")) ?? 0, 50)
    assert.isBelow(lines.filter((line) => line.includes("A run of a background fiber failed")).length, 60)
  })
})
