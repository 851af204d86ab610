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

/** Repeats an attempt until it succeeds. */
export const eventually = <A>(attempt: () => A | Promise<A>): Promise<A> =>
  vi.waitFor(attempt, { timeout: limit, interval: 25 })
