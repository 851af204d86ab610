/**
 * Token buckets per project and policy (contract §4), not by Effect's `RateLimiter`, whose store in memory forgets no key and whose
 * store in Redis counts by the clocks of the callers, which differ. If `REDIS_URL` is set, all processes share the buckets through
 * one Redis. Otherwise each process has its own buckets.
 */
import { Clock, Context, Data, Duration, Effect, Layer, Metric, Option, Record, type Redacted } from "effect"
import { type Bucket, policies, type Policy, Principal, type RateLimit } from "../../api/Access.ts"
import type { ProjectId } from "../../api/schema/Ids.ts"
import { monotonicMillis } from "../../platform/MonotonicTime.ts"
import { Settings } from "../../platform/Settings.ts"
import type { Cost, Decision } from "./RedisStore.ts"
import { RateLimiterUnavailable, RateLimitExceeded } from "../../api/Problems.ts"
import { CurrentRequest, type CurrentRequestShape } from "../../platform/CurrentRequest.ts"
import { atZero, counter, MetricsEnabled } from "../../telemetry/Telemetry.ts"

class LimiterUnavailable extends Data.TaggedError("LimiterUnavailable") {}

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

/** What a request costs by default. */
const one: Cost = { tokens: 1, taken: 0 }

export class RateLimits extends Context.Service<
  RateLimits,
  {
    /**
     * Takes tokens, by default one, at the monotonic time `now` in milliseconds. Buckets in memory give them at the call, before the
     * returned effect runs. The policy `messages` falls back to these while the shared store does not answer.
     */
    readonly take: (bucket: Bucket, now: number, cost?: Cost) => Effect.Effect<Decision, LimiterUnavailable>
    /** Succeeds if the shared store answers. */
    readonly ping: Effect.Effect<void, LimiterUnavailable>
  }
>()("developer-api-service/http/limits/RateLimits") {
  static readonly layer = Layer.effect(
    RateLimits,
    Effect.gen(function* () {
      const { redisUrl } = yield* Settings
      const local = takeLocal()
      const take = Option.isNone(redisUrl) ? local : yield* takeShared(redisUrl.value)
      return {
        // Without the fallback, an outage of the store would stop all messages.
        take: (bucket, now, cost = one) =>
          bucket.policy === "messages"
            ? Effect.catch(take(bucket, now, cost), () => local(bucket, now, cost))
            : take(bucket, now, cost),
        ping: Effect.clockWith((clock) =>
          Effect.asVoid(take({ key: "ping", limit: 1_000_000, windowSeconds: 1 }, monotonicMillis(clock), one))
        )
      }
    })
  )
}

const takeLocal = (): Take => {
  const buckets = new TokenBuckets()
  return (bucket, now, cost) => Effect.succeed(buckets.take(bucket.key, bucket, now, cost))
}

/** The Redis client is loaded only with `REDIS_URL`, because the client has more modules than the rest of the process. */
const takeShared = Effect.fnUntraced(function* (url: Redacted.Redacted) {
  const { makeTake } = yield* Effect.promise(() => import("./RedisStore.ts"))
  // Some requests ask the store twice, and the contract (§4) allows 1 s for the whole answer.
  const take = yield* makeTake(url, Duration.millis(400))
  return (...[bucket, , cost]: Parameters<Take>) => Effect.mapError(take(bucket, cost), () => new LimiterUnavailable())
})

const decisions = counter("rate_limit_decisions_total", "Decisions of the rate limiter, by policy and decision")

type Throttled<A> = Effect.Effect<A, RateLimitExceeded | RateLimiterUnavailable>

/** Makes a function that takes tokens, by default one. `now` is the monotonic time in milliseconds. */
export const makeThrottle = Effect.gen(function* () {
  const limits = yield* RateLimits
  const measured = yield* MetricsEnabled
  yield* atZero(
    policies.flatMap((policy) =>
      (["allowed", "refused", "unavailable"] as const).map((decision) =>
        Metric.withAttributes(decisions, { policy, decision })
      )
    )
  )
  const context = yield* Effect.context<never>()
  const count = (policy: Policy, decision: "allowed" | "refused" | "unavailable") => {
    if (measured) Metric.withAttributes(decisions, { policy, decision }).updateUnsafe(1, context)
  }

  return (bucket: Bucket, request: CurrentRequestShape, now: number, cost?: Cost): Throttled<void> => {
    const { policy } = bucket
    return limits.take(bucket, now, cost).pipe(
      Effect.mapErrorEager(() => {
        count(policy, "unavailable")
        return new RateLimiterUnavailable()
      }),
      Effect.flatMapEager((decision) => {
        count(policy, decision.allowed ? "allowed" : "refused")
        setHeaders(request.headers, bucket, decision)
        if (decision.allowed) return Effect.void
        const detail = RateLimitExceeded.detail(policy, bucket, request.headers["retry-after"])
        return Effect.fail(new RateLimitExceeded({ detail }))
      })
    )
  }
})

/**
 * Makes a function for a mutation that costs `tokens`. One token was taken before the body was read; the function takes the others. If
 * there are not enough, it gives the first one back. No request costs more than the whole bucket.
 */
export const makeCharge = Effect.map(
  makeThrottle,
  (throttle) => (tokens: number) =>
    Principal.use(({ buckets: { write: bucket } }) =>
      Effect.withFiber((fiber) => {
        const cost = Math.min(tokens, bucket.limit)
        if (cost <= 1) return Effect.void
        const now = monotonicMillis(fiber.getRef(Clock.Clock))
        return throttle(bucket, fiber.getRef(CurrentRequest), now, { tokens: cost, taken: 1 })
      })
    )
)

/**
 * Makes a function that takes a token of a project before the body of a request arrives, because only the body tells the policy of the
 * request. The token is of `read`, or of another policy if `read` has none. Returns the effect that gives it back, which runs once the
 * body is there; a caller that stalls or leaves loses it. While the shared store does not answer, no token is taken: the charge after the
 * body fails then.
 */
export const makeHold = Effect.gen(function* () {
  const { take } = yield* RateLimits
  const throttle = yield* makeThrottle
  const giveBack = (bucket: Bucket) =>
    Effect.clockWith((clock) => Effect.ignore(take(bucket, monotonicMillis(clock), { tokens: 0, taken: 1 })))

  return (buckets: Readonly<Record<Policy, Bucket>>, request: CurrentRequestShape, now: number) => {
    const holdFirst = ([policy, ...others]: ReadonlyArray<Policy>): Throttled<Effect.Effect<void>> => {
      if (policy === undefined) return Effect.as(throttle(buckets.read, request, now), giveBack(buckets.read))
      return Effect.matchEffect(take(buckets[policy], now), {
        onFailure: () => Effect.succeed(Effect.void),
        onSuccess: ({ allowed }) => (allowed ? Effect.succeed(giveBack(buckets[policy])) : holdFirst(others))
      })
    }
    return holdFirst(policies)
  }
})

const wholeSeconds = (millis: number) => Math.ceil(millis / 1_000)

/**
 * Sets the headers of draft-ietf-httpapi-ratelimit-headers-11. `r` is the number of requests that are left. `t` is the effective
 * window in seconds: a client that spreads `r` requests over `t` seconds keeps to the rate of the policy (§8.5 of the draft). If
 * no request is left, `t` is the time until the next one, or until a refused request can succeed. `Retry-After` is never shorter
 * than `t` (§6).
 */
const setHeaders = (
  headers: Record<string, string>,
  { description, limit, policy, windowSeconds }: Bucket,
  { allowed, nextAfter, remaining }: Decision
) => {
  const left = Math.floor(remaining)
  const window = left > 0 ? Math.ceil((left * windowSeconds) / limit) : wholeSeconds(nextAfter)
  headers["ratelimit-policy"] = description
  headers["ratelimit"] = `"${policy}";r=${left};t=${window}`
  if (!allowed) headers["retry-after"] = String(Math.max(1, window, wholeSeconds(nextAfter)))
}

interface Tokens {
  tokens: number
  /** Monotonic time at which the last token was added, in milliseconds. */
  refilledAt: number
  /** Time in which one token is added, in milliseconds. */
  readonly perToken: number
  readonly limit: number
}

/** Number of buckets below which full buckets are kept. A full bucket can be dropped, because it is the same as a new bucket. */
const minSweep = 10_000

class TokenBuckets {
  private readonly buckets = new Map<string, Tokens>()
  private sweepAbove = minSweep

  take(key: string, { limit, windowSeconds }: RateLimit, now: number, { taken, tokens }: Cost): Decision {
    const bucket = this.buckets.get(key) ?? this.add(key, limit, windowSeconds, now)
    refill(bucket, now)
    const available = Math.min(limit, bucket.tokens + taken)
    const allowed = available >= tokens
    bucket.tokens = allowed ? available - tokens : available
    const missing = allowed ? 1 : tokens - available
    const elapsed = Math.max(0, now - bucket.refilledAt)
    return { allowed, remaining: bucket.tokens, nextAfter: Math.max(0, missing * bucket.perToken - elapsed) }
  }

  private add(key: string, limit: number, windowSeconds: number, now: number): Tokens {
    if (this.buckets.size >= this.sweepAbove) this.sweep(now)
    const bucket = { tokens: limit, refilledAt: now, perToken: (windowSeconds * 1_000) / limit, limit }
    this.buckets.set(key, bucket)
    return bucket
  }

  /** Drops full buckets. The number of buckets has to double before the next sweep, so the cost per bucket stays small. */
  private sweep(now: number) {
    for (const [key, bucket] of this.buckets) {
      refill(bucket, now)
      if (bucket.tokens >= bucket.limit) this.buckets.delete(key)
    }
    this.sweepAbove = Math.max(minSweep, 2 * this.buckets.size)
  }
}

const refill = (bucket: Tokens, now: number) => {
  const returned = Math.floor((now - bucket.refilledAt) / bucket.perToken)
  if (returned > 0) {
    bucket.tokens = Math.min(bucket.limit, bucket.tokens + returned)
    bucket.refilledAt += returned * bucket.perToken
  }
  if (bucket.tokens >= bucket.limit) bucket.refilledAt = now
}
