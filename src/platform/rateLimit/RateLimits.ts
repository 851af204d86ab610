/**
 * Token buckets per project and policy (contract §4): shared by all replicas through Redis when `REDIS_URL` is set,
 * else in the process.
 */
import { Context, Data, Duration, Effect, Layer, Option } from "effect"
import { RateLimiter } from "effect/persistence"
import type { Policy } from "../../api/Access.ts"
import type { RateLimit } from "../../api/Authentication.ts"
import type { ProjectId } from "../../api/Ids.ts"
import { Settings } from "../Settings.ts"
import * as RedisStore from "./RedisStore.ts"

/** What the bucket said. */
export interface Decision {
  readonly allowed: boolean
  /** Tokens left in the bucket. */
  readonly remaining: number
  /** Until the bucket is full again. */
  readonly full: Duration.Duration
  /** Until one more request succeeds; zero when this one did. */
  readonly retryAfter: Duration.Duration
}

/** The store of the buckets did not answer in time. */
export class LimiterUnavailable extends Data.TaggedError("LimiterUnavailable") {}

/** How long a request waits for the store (contract §4: the answer comes within 1 s, with all else that it takes). */
const patience = Duration.millis(500)

export class RateLimits extends Context.Service<
  RateLimits,
  {
    /**
     * Takes one token. A refused request takes none. For `messages`, buckets of this process stand in for a store that
     * does not answer.
     */
    readonly take: (
      projectId: ProjectId,
      policy: Policy,
      limit: RateLimit
    ) => Effect.Effect<Decision, LimiterUnavailable>
    /** Fails while the store does not answer. */
    readonly ping: Effect.Effect<void, LimiterUnavailable>
  }
>()("developer-api/platform/rateLimit/RateLimits") {
  static readonly layerNoDeps = Layer.effect(
    RateLimits,
    Effect.gen(function* () {
      const shared = yield* RateLimiter.RateLimiter
      const own = yield* RateLimiter.make.pipe(Effect.provide(RateLimiter.layerStoreMemory))

      const take = (limiter: RateLimiter.RateLimiter, key: string, { limit, windowSeconds }: RateLimit) =>
        limiter.consume({ key, limit, window: Duration.seconds(windowSeconds), algorithm: "token-bucket" }).pipe(
          Effect.map((taken): Decision => ({
            allowed: true,
            remaining: taken.remaining,
            full: taken.resetAfter,
            retryAfter: Duration.zero
          })),
          Effect.catchReason("RateLimiterError", "RateLimitExceeded", ({ retryAfter }) =>
            // The bucket is empty, and its next token is `retryAfter` away.
            Effect.succeed<Decision>({
              allowed: false,
              remaining: 0,
              full: Duration.sum(retryAfter, Duration.seconds((windowSeconds / limit) * (limit - 1))),
              retryAfter
            })
          ),
          Effect.mapError(() => new LimiterUnavailable())
        )

      return {
        // Another limit is another bucket: one that was lowered must not go on with the tokens of the old. The project
        // stands first: the store makes a key of its own by appending `:refill`.
        take: (projectId, policy, limit) => {
          const key = `${projectId}:${policy}:${limit.limit}/${limit.windowSeconds}`
          const taken = take(shared, key, limit)
          return policy === "messages" ? Effect.catch(taken, () => take(own, key, limit)) : taken
        },
        ping: Effect.asVoid(take(shared, "ping", { limit: 1_000_000, windowSeconds: 1 }))
      }
    })
  )

  static readonly layer = RateLimits.layerNoDeps.pipe(
    Layer.provide(RateLimiter.layer),
    Layer.provide(
      Layer.unwrap(
        Effect.map(Settings, ({ redisUrl }) =>
          Option.match(redisUrl, {
            onNone: () => RateLimiter.layerStoreMemory,
            onSome: (url) => RedisStore.layer(url, patience)
          })
        )
      )
    )
  )
}
