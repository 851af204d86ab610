/** Token buckets in Redis, shared by all processes of the service. Without a connection, taking a token fails at once. */
import { Data, type Duration, Effect, Latch, type Redacted } from "effect"
import type { RateLimit } from "../../../api/Authentication.ts"
import { connect } from "./RedisConnection.ts"
import type { Decision } from "./TokenBuckets.ts"

class RedisFailed extends Data.TaggedError("RedisFailed")<{ readonly cause: unknown }> {}

/**
 * Connects in the background and retries without a limit, so that the process can start before Redis. After a failover, the
 * connected server may be a read-only replica, which keeps the connection open. `makeTake` then connects again, because the name
 * in the URL leads to the new primary. `timeout` is the maximum time for an answer of Redis.
 */
export const makeTake = Effect.fnUntraced(function* (url: Redacted.Redacted, timeout: Duration.Duration) {
  let take: Effect.Success<ReturnType<typeof connect>> | undefined
  const demoted = yield* Latch.make()

  const session = Effect.gen(function* () {
    take = yield* connect(url)
    yield* demoted.close
    yield* demoted.await
    take = undefined
    yield* Effect.logWarning("Redis is a read-only replica: connects again")
  })
  yield* Effect.scoped(session).pipe(
    Effect.catchCause((cause) => Effect.logError("The connection to Redis failed", cause)),
    Effect.andThen(Effect.sleep("1 second")),
    Effect.forever,
    Effect.forkScoped
  )

  return ({ key, limit, windowSeconds }: RateLimit & { readonly key: string }) =>
    Effect.tryPromise({
      try: async () => {
        if (take === undefined) throw new Error("Redis is not connected")
        return await take(key, limit, (windowSeconds * 1_000) / limit)
      },
      catch: (cause) => new RedisFailed({ cause })
    }).pipe(
      Effect.tapError(({ cause }) => (String(cause).includes("READONLY") ? demoted.open : Effect.void)),
      Effect.timeout(timeout),
      Effect.map(([taken, remaining, nextAfter]): Decision => ({
        allowed: taken === 1,
        remaining,
        nextAfter: Number(nextAfter)
      }))
    )
})
