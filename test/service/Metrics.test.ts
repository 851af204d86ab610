import { assert, it } from "../support/Vitest.ts"
import { Effect, Metric } from "effect"
import { TestClock } from "effect/testing"
import { limiter, measurePing } from "../../src/service/Metrics.ts"

it.effect(
  "the duration of a ping of Redis grows while none is answered, and is that of the last one afterwards",
  function* () {
    let isGone = false
    const measure = measurePing(Effect.suspend(() => (isGone ? Effect.fail("gone") : Effect.void)))
    const seen: Array<number> = []
    for (isGone of [false, true, true, true, false]) {
      yield* measure
      seen.push((yield* Metric.value(limiter)).value)
      yield* TestClock.adjust("10 seconds")
    }
    assert.deepStrictEqual(seen, [0, 0, 10, 20, 0])
  }
)
