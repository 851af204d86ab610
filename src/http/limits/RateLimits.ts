/**
 * Token buckets per project and policy (contract §4), not by Effect's `RateLimiter`, whose store in memory forgets no key and whose
 * store in Redis counts by the clocks of the callers, which differ. If `REDIS_URL` is set, all processes share the buckets through
 * one Redis. Otherwise each process has its own buckets.
 */
import { Context, Data, Duration, Effect, Layer, Option, Record, type Redacted } from "effect"
import type { Policy } from "../../api/Access.ts"
import type { Bucket, RateLimit } from "../../api/Authentication.ts"
import type { ProjectId } from "../../api/schema/Ids.ts"
import { monotonicMillis } from "../../platform/MonotonicTime.ts"
import { Settings } from "../../platform/Settings.ts"
import { type Cost, type Decision, one, TokenBuckets } from "./TokenBuckets.ts"

/** Redis, the shared store of the buckets, failed or did not answer in time. */
class LimiterUnavailable extends Data.TaggedError("LimiterUnavailable") {}

/** Maximum time of one answer of the shared store. Some requests ask it twice, and the contract (§4) allows 1 s for the whole answer. */
const storeTimeout = Duration.millis(400)

export const bucketsOf = (
  projectId: ProjectId,
  limits: Readonly<Record<Policy, RateLimit>>
): Readonly<Record<Policy, Bucket>> =>
  Record.map(limits, ({ limit, windowSeconds }, policy) => ({
    limit,
    windowSeconds,
    policy,
    // The key contains the limit, so that a lowered limit starts a new bucket without the tokens of the old one. In Redis, each
    // bucket has a second key, which ends with `:refill`.
    key: `${projectId}:${policy}:${limit}/${windowSeconds}`,
    description: `"${policy}";q=${limit};w=${windowSeconds}`
  }))

type Take = (
  bucket: Pick<Bucket, "key" | keyof RateLimit>,
  now: number,
  cost: Cost
) => Effect.Effect<Decision, LimiterUnavailable>

export class RateLimits extends Context.Service<
  RateLimits,
  {
    /**
     * Takes tokens at the monotonic time `now`, in milliseconds, by default one. A refused request takes none. With buckets in
     * memory, the tokens are taken when the function is called, before the returned effect runs. The policy `messages` falls
     * back to buckets in memory while the shared store does not answer.
     */
    readonly take: (bucket: Bucket, now: number, cost?: Cost) => Effect.Effect<Decision, LimiterUnavailable>
    /** Succeeds if the shared store answers. */
    readonly ping: Effect.Effect<void, LimiterUnavailable>
  }
>()("developer-api/http/limits/RateLimits") {
  static readonly layer = Layer.unwrap(
    Effect.map(Settings, ({ redisUrl }) =>
      Option.match(redisUrl, {
        onNone: () => Layer.sync(RateLimits, () => limitsOf(takeLocal())),
        onSome: (url) =>
          Layer.effect(
            RateLimits,
            Effect.map(takeShared(url), (shared) => limitsOf(shared, takeLocal()))
          )
      })
    )
  )
}

/** Only the policy `messages` has a fallback: without it, an outage of the store would stop all messages. */
const limitsOf = (take: Take, fallback?: Take) => {
  const takeMessage: Take =
    fallback === undefined
      ? take
      : (bucket, now, cost) => Effect.catch(take(bucket, now, cost), () => fallback(bucket, now, cost))
  return RateLimits.of({
    take: (bucket, now, cost = one) => (bucket.policy === "messages" ? takeMessage : take)(bucket, now, cost),
    ping: Effect.clockWith((clock) =>
      Effect.asVoid(take({ key: "ping", limit: 1_000_000, windowSeconds: 1 }, monotonicMillis(clock), one))
    )
  })
}

const takeLocal = (): Take => {
  const buckets = new TokenBuckets()
  return (bucket, now, cost) => Effect.succeed(buckets.take(bucket.key, bucket, now, cost))
}

/** The Redis client is loaded only with `REDIS_URL`, because the client has more modules than the rest of the process. */
const takeShared = Effect.fnUntraced(function* (url: Redacted.Redacted) {
  const { makeTake } = yield* Effect.promise(() => import("./RedisStore.ts"))
  const take = yield* makeTake(url, storeTimeout)
  return (...[bucket, , cost]: Parameters<Take>) => Effect.mapError(take(bucket, cost), () => new LimiterUnavailable())
})
