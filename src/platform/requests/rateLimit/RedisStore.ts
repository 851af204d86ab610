/** Token buckets in Redis, which replicas share. Requests fail at once while there is no connection. */
import { type Duration, Effect, Exit, Fiber, Layer, type Redacted, Scope } from "effect"
import { RateLimiter } from "effect/persistence"
import { layer as connect } from "./RedisConnection.ts"

type Store = RateLimiter.RateLimiterStore["Service"]

const unavailable = (message: string, cause?: unknown) =>
  new RateLimiter.RateLimiterError({ reason: new RateLimiter.RateLimitStoreError({ message, cause }) })

/**
 * Provides the store. It connects in the background and retries without a limit, so that the process can start before Redis.
 * `timeout` is the maximum time for an answer of Redis.
 */
export const layer = (url: Redacted.Redacted, timeout: Duration.Duration): Layer.Layer<RateLimiter.RateLimiterStore> =>
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
        Effect.tapCause((cause) => Effect.logError("The connection to Redis failed", cause)),
        Effect.ignore,
        Effect.forkDetach
      )
      // Closing has a timeout, because it waits for outstanding answers, and a Redis that hangs sends none.
      yield* Effect.addFinalizer(() =>
        Effect.andThen(Fiber.interrupt(connecting), Scope.close(connection, Exit.void)).pipe(
          Effect.forkDetach,
          Effect.flatMap((closing) => Effect.timeoutOption(Effect.interruptible(Fiber.await(closing)), timeout))
        )
      )

      const withStore = <A>(f: (store: Store) => Effect.Effect<A, RateLimiter.RateLimiterError>) =>
        Effect.suspend(() =>
          store === undefined
            ? Effect.fail(unavailable("Redis is not connected"))
            : Effect.timeoutOrElse(f(store), {
                duration: timeout,
                orElse: () => Effect.fail(unavailable("Redis does not answer"))
              })
        )

      return RateLimiter.RateLimiterStore.of({
        tokenBucket: (options) => withStore((store) => store.tokenBucket(options)),
        fixedWindow: (options) => withStore((store) => store.fixedWindow(options)),
        adaptiveConsume: (options) => withStore((store) => store.adaptiveConsume(options)),
        adaptiveFeedback: (options) => withStore((store) => store.adaptiveFeedback(options))
      })
    })
  )
