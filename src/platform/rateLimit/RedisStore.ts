/** The buckets in Redis, for replicas to share; a Redis that is away, slow or not there yet fails a request in time. */
import { type Duration, Effect, Exit, Fiber, Layer, type Redacted, Scope } from "effect"
import { RateLimiter } from "effect/persistence"
import { layer as connect } from "./RedisConnection.ts"

type Store = RateLimiter.RateLimiterStore["Service"]

const unavailable = (message: string, cause?: unknown) =>
  new RateLimiter.RateLimiterError({ reason: new RateLimiter.RateLimitStoreError({ message, cause }) })

/**
 * Connects in the background and for as long as it takes, so that the service starts, and recovers, whatever Redis
 * does. Commands never queue while disconnected: they fail at once.
 */
export const layer = (url: Redacted.Redacted, patience: Duration.Duration): Layer.Layer<RateLimiter.RateLimiterStore> =>
  Layer.effect(
    RateLimiter.RateLimiterStore,
    Effect.gen(function* () {
      let store: Store | undefined

      const connection = yield* Scope.make()
      const connecting = yield* Layer.buildWithScope(connect(url), connection).pipe(
        Effect.flatMap((context) => Effect.provideContext(RateLimiter.makeStoreRedis(), context)),
        Effect.map((connected) => {
          store = connected
        }),
        Effect.tapCause((cause) => Effect.logError("Redis can't be used", cause)),
        Effect.ignore,
        Effect.forkDetach
      )
      // Closing waits for the answers to what was asked. A Redis that hangs gives none, and is not waited for.
      yield* Effect.addFinalizer(() =>
        Effect.andThen(Fiber.interrupt(connecting), Scope.close(connection, Exit.void)).pipe(
          Effect.forkDetach,
          Effect.flatMap((closing) => Effect.timeoutOption(Effect.interruptible(Fiber.await(closing)), patience))
        )
      )

      const ask = <A>(f: (store: Store) => Effect.Effect<A, RateLimiter.RateLimiterError>) =>
        Effect.suspend(() =>
          store === undefined
            ? Effect.fail(unavailable("Redis is not connected"))
            : Effect.timeoutOrElse(f(store), {
                duration: patience,
                orElse: () => Effect.fail(unavailable("Redis does not answer"))
              })
        )

      return RateLimiter.RateLimiterStore.of({
        tokenBucket: (options) => ask((store) => store.tokenBucket(options)),
        fixedWindow: (options) => ask((store) => store.fixedWindow(options)),
        adaptiveConsume: (options) => ask((store) => store.adaptiveConsume(options)),
        adaptiveFeedback: (options) => ask((store) => store.adaptiveFeedback(options))
      })
    })
  )
