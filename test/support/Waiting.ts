/** Waiting for conditions that other processes, sockets or fibers bring about. */
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { vi } from "vitest"

/** Milliseconds, longer than any expected wait, also on a loaded machine. */
const limit = 60_000

/** Waits until a condition holds, by the test's clock. */
export const until = (condition: () => boolean) =>
  Effect.sleep("5 millis").pipe(Effect.repeat({ until: condition }), Effect.timeout(limit), Effect.orDie)

/** Waits until a condition holds, by the system's clock, in a test with a test clock. */
export const untilLive = (condition: () => boolean) => TestClock.withLive(until(condition))

/** Repeats a query until its result satisfies `holds`. */
export const untilRows = <A, R>(query: Effect.Effect<A, never, R>, holds: (answer: A) => boolean) =>
  Effect.delay(query, "20 millis").pipe(Effect.repeat({ until: holds }), Effect.timeout(limit), Effect.orDie)

/** Advances the test's clock in steps, with time for statements in between, until what `look` finds satisfies `holds`. */
export const passUntil = <A, E, R>(look: Effect.Effect<A, E, R>, holds: (found: A) => boolean) =>
  TestClock.adjust("500 millis").pipe(
    Effect.andThen(TestClock.withLive(Effect.sleep("20 millis"))),
    Effect.andThen(look),
    Effect.repeat({ until: holds })
  )

/** Repeats an attempt until it succeeds. */
export const eventually = <A>(attempt: () => A | Promise<A>): Promise<A> =>
  vi.waitFor(attempt, { timeout: limit, interval: 25 })

/** Waits until nothing is left, for any time while the number decreases. */
export const untilNoneLeft = async (count: () => Promise<number>): Promise<void> => {
  let left = await count()
  while (left > 0) {
    left = await eventually(async () => {
      const now = await count()
      if (now >= left) throw new Error(`${now} are left, and no less`)
      return now
    })
  }
}
