/** Work in batches at intervals, under a test clock. */
import { assert, it } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { TestClock } from "effect/testing"
import { forkPeriodic } from "../../../src/platform/background/Periodic.ts"
import { Supervisor } from "../../../src/platform/background/Supervisor.ts"
import { MetricsEnabled } from "../../../src/platform/telemetry/MetricsEnabled.ts"

it.effect("periodic work goes on without the interval while it leaves more to do, and each batch is progress", () =>
  Effect.gen(function* () {
    const { stalled } = yield* Supervisor
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
      assert.deepStrictEqual(stalled(), [], `after ${seconds} s`)
    }
    assert.strictEqual(batches, 9)
    yield* TestClock.adjust("1 second")
    assert.strictEqual(batches, 10)
    yield* TestClock.adjust("64 seconds")
    assert.strictEqual(batches, 10)
    yield* TestClock.adjust("1 second")
    assert.strictEqual(batches, 11)
  }).pipe(Effect.provide(Supervisor.layer), Effect.provideService(MetricsEnabled, false))
)
