/** Token buckets in Redis, which replicas share. Requests fail at once while there is no connection. */
import { Cause, Context, type Duration, Effect, Fiber, Latch, Layer, type Redacted } from "effect"
import { Redis } from "effect/persistence"
import type { RateLimit } from "../../../api/Authentication.ts"
import { layer as connect } from "./RedisConnection.ts"
import type { Decision } from "./TokenBuckets.ts"

/**
 * Takes one token of a bucket if there is one. The keys have its tokens, and the time of the last refill in milliseconds. The time
 * is that of Redis, because the clocks of replicas differ and can be set back. If the clock of Redis was set back, the bucket is
 * refilled from now on.
 */
const takeToken = Redis.script(
  (key: string, limit: number, perToken: number) => [
    `ratelimiter:${key}`,
    `ratelimiter:${key}:refill`,
    limit,
    perToken
  ],
  {
    numberOfKeys: 2,
    lua: `
local time = redis.call("TIME")
local now = time[1] * 1000 + time[2] / 1000
local limit = tonumber(ARGV[1])
local per_token = tonumber(ARGV[2])
local tokens = tonumber(redis.call("GET", KEYS[1])) or limit
local refilled = math.min(tonumber(redis.call("GET", KEYS[2])) or now, now)

local returned = math.floor((now - refilled) / per_token)
tokens = math.min(limit, tokens + returned)
refilled = refilled + returned * per_token
if tokens >= limit then refilled = now end

local taken = tokens >= 1 and 1 or 0
tokens = tokens - taken
local next_after = math.max(0, refilled + per_token - now)
local ttl = math.max(1, math.ceil((limit - tokens - 1) * per_token + next_after))
redis.call("SET", KEYS[1], tokens, "PX", ttl)
redis.call("SET", KEYS[2], refilled, "PX", ttl)
return { taken, tokens, string.format("%.17g", next_after) }
`
  }
).withReturnType<readonly [taken: number, remaining: number, nextAfter: string]>()

/** Whether Redis has become a replica in a failover. The connection would stay open, and no script could write. */
const isReadOnly = ({ cause }: Redis.RedisError) => String(cause).includes("READONLY")

/**
 * Makes the function that takes a token. It connects in the background and retries without a limit, so that the process can start
 * before Redis. When Redis has become a replica, connects again, because the name then leads to another server. `timeout` is the
 * maximum time for an answer of Redis.
 */
export const makeTake = Effect.fnUntraced(function* (url: Redacted.Redacted, timeout: Duration.Duration) {
  let redis: Redis.Redis["Service"] | undefined
  const demoted = yield* Latch.make()

  const session = Effect.gen(function* () {
    redis = Context.get(yield* Layer.build(connect(url)), Redis.Redis)
    yield* demoted.close
    yield* demoted.await
    redis = undefined
    yield* Effect.logWarning("Redis is a read-only replica: connects again")
  })
  const connecting = yield* Effect.scoped(session).pipe(
    Effect.tapCause((cause) => Effect.logError("The connection to Redis failed", cause)),
    Effect.ignoreCause,
    Effect.andThen(Effect.sleep("1 second")),
    Effect.forever,
    Effect.forkDetach
  )
  // Closing has a timeout, because it waits for outstanding answers, and a Redis that hangs sends none.
  yield* Effect.addFinalizer(() =>
    Effect.flatMap(Effect.forkDetach(Fiber.interrupt(connecting)), (closing) =>
      Effect.timeoutOption(Effect.interruptible(Fiber.await(closing)), timeout)
    )
  )

  return ({ key, limit, windowSeconds }: RateLimit & { readonly key: string }) =>
    Effect.suspend((): Effect.Effect<Decision, Redis.RedisError | Cause.TimeoutError> => {
      if (redis === undefined) return Effect.fail(new Redis.RedisError({ cause: "Redis is not connected" }))
      return redis
        .eval(takeToken)(key, limit, (windowSeconds * 1_000) / limit)
        .pipe(
          Effect.timeout(timeout),
          Effect.tapError((error) => (error._tag === "RedisError" && isReadOnly(error) ? demoted.open : Effect.void)),
          Effect.map(([taken, remaining, nextAfter]) => ({
            allowed: taken === 1,
            remaining,
            nextAfter: Number(nextAfter)
          }))
        )
    })
})
