/** Durations are measured with monotonic time, because the time of day can be set back. A test clock controls both times. */
import { Cache, Clock, Duration, Effect, Exit, Option } from "effect"

export const monotonicMillis = (clock: Clock.Clock): number => Number(clock.monotonicTimeNanosUnsafe()) / 1e6

interface Options<A> {
  /** Maximum number of entries; the oldest are dropped. */
  readonly capacity: number
  readonly timeToLive: (result: A) => Duration.Duration
}

interface Entry<A> {
  readonly result: A
  readonly until: number
}

/**
 * Makes a function that looks up a key and caches the result for `timeToLive`, measured by monotonic time. Concurrent look-ups
 * of a key share one call. Failures are not cached.
 */
export const cachedFor = <Key, A, E>(
  lookup: (key: Key) => Effect.Effect<A, E>,
  { capacity, timeToLive }: Options<A>
): Effect.Effect<(key: Key) => Effect.Effect<A, E>> =>
  Effect.gen(function* () {
    const clock = yield* Clock.Clock
    const toEntry = (result: A): Entry<A> => ({
      result,
      until: monotonicMillis(clock) + Duration.toMillis(timeToLive(result))
    })
    const cache = yield* Cache.makeWith((key: Key) => Effect.map(lookup(key), toEntry), {
      capacity,
      timeToLive: Exit.match({ onSuccess: () => Duration.infinity, onFailure: () => Duration.zero })
    })
    const get = (key: Key) => Effect.map(Cache.get(cache, key), ({ result }) => result)

    return (key) =>
      Effect.flatMap(Cache.getSuccess(cache, key), (known) => {
        if (Option.isNone(known)) return get(key)
        const entry = known.value
        return monotonicMillis(clock) < entry.until
          ? Effect.succeed(entry.result)
          : Effect.andThen(
              Cache.invalidateWhen(cache, key, (other) => other === entry),
              get(key)
            )
      })
  })
