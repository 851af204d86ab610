/** Durations are measured with monotonic time, because the time of day can be set back. A test clock controls both times. */
import { Clock, Effect } from "effect"

export const monotonicMillis = (clock: Clock.Clock): number => Number(clock.monotonicTimeNanosUnsafe()) / 1e6

/** Returns a clock whose time of day is monotonic time, for parts of Effect that measure durations by the time of day. */
export const monotonicClock = (clock: Clock.Clock): Clock.Clock => ({
  sleep: (duration) => clock.sleep(duration),
  monotonicTimeNanosUnsafe: () => clock.monotonicTimeNanosUnsafe(),
  monotonicTimeNanos: clock.monotonicTimeNanos,
  currentTimeNanosUnsafe: () => clock.monotonicTimeNanosUnsafe(),
  currentTimeNanos: clock.monotonicTimeNanos,
  currentTimeMillisUnsafe: () => monotonicMillis(clock),
  currentTimeMillis: Effect.sync(() => monotonicMillis(clock))
})
