/** Limits the rate of requests, and adds headers that report the bucket (contract §4). */
import { Clock, Effect, Metric } from "effect"
import { policies, type Policy } from "../../api/Access.ts"
import { type Bucket, Principal } from "../../api/Authentication.ts"
import { RateLimitExceeded, RateLimiterUnavailable } from "../../api/Problems.ts"
import { CurrentRequest, type CurrentRequestShape } from "../../platform/CurrentRequest.ts"
import { monotonicMillis } from "../../platform/MonotonicTime.ts"
import { atZero, MetricsEnabled } from "../../telemetry/Telemetry.ts"
import { RateLimits } from "./RateLimits.ts"
import type { Cost, Decision } from "./TokenBuckets.ts"

const decisions = Metric.counter("rate_limit_decisions_total", {
  description: "Decisions of the rate limiter, by policy and decision",
  incremental: true
})

/** `now` is the monotonic time in milliseconds. By default, a request costs one token. */
type Throttle = (bucket: Bucket, request: CurrentRequestShape, now: number, cost?: Cost) => Throttled<void>

type Throttled<A> = Effect.Effect<A, RateLimitExceeded | RateLimiterUnavailable>

export const makeThrottle: Effect.Effect<Throttle, never, RateLimits> = Effect.gen(function* () {
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

  return (bucket, request, now, cost) => {
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
        const detail = RateLimitExceeded.detail(policy, bucket)
        return Effect.fail(new RateLimitExceeded({ detail }))
      })
    )
  }
})

/**
 * Makes a function for a mutation that costs `tokens`. It takes what is left to take, as one is taken before the body is read.
 * If there is not enough, that one is given back. No request costs more than the whole bucket.
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
 * Makes a function that holds a token of a project until the body of a request tells the policy of the request: one of `read`, or
 * of another policy if `read` has none. Returns the effect that gives the token back. A caller that stalls or leaves does not get
 * it back. While the shared store does not answer, none is held: what follows the body tells of that.
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
