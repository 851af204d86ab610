/** Waiting under a test clock. */
import { Effect } from "effect"
import { TestClock } from "effect/testing"

/**
 * Advances the clock in steps of the interval of claims until something holds. While an attempt is in flight, the clock waits
 * for it, so that a slow machine does not miss a state that lasts only as long as the shortest backoff.
 */
export const untilLater = Effect.fnUntraced(
  function* <A, R>(
    look: Effect.Effect<A, never, R>,
    holds: (found: A) => boolean,
    isUnderWay: (found: A) => boolean = () => false
  ) {
    // The attempt may belong to a killed process; then only time ends it.
    for (let waits = 0, found = yield* look; !holds(found); found = yield* look) {
      if (isUnderWay(found) && ++waits % 50 > 0) yield* TestClock.withLive(Effect.sleep("5 millis"))
      else yield* Effect.andThen(TestClock.adjust("250 millis"), TestClock.withLive(Effect.sleep("20 millis")))
    }
  },
  Effect.raceFirst(
    TestClock.withLive(Effect.andThen(Effect.sleep("45 seconds"), Effect.die("The condition did not hold within 45 s")))
  )
)
