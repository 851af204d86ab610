/** Rate limiting of a request, with the headers that report the bucket (contract §4). */
import { Effect, Metric } from "effect"
import type { Policy } from "../../../api/Access.ts"
import { RateLimitExceeded, RateLimiterUnavailable } from "../../../api/Problems.ts"
import type { CurrentRequestShape } from "../../CurrentRequest.ts"
import { MetricsEnabled } from "../../telemetry/MetricsEnabled.ts"
import { type Bucket, RateLimits } from "./RateLimits.ts"
import type { Decision } from "./TokenBuckets.ts"

const decisions = Metric.counter("rate_limit_decisions_total", {
  description: "Decisions of the rate limiter, by policy and decision",
  incremental: true
})

/** Takes a token for a request at the time `now`, as `RateLimits.take` does, and adds the bucket's headers to its answer. */
type Throttle = (
  bucket: Bucket,
  request: CurrentRequestShape,
  now: number
) => Effect.Effect<void, RateLimitExceeded | RateLimiterUnavailable>

export const makeThrottle: Effect.Effect<Throttle, never, RateLimits> = Effect.gen(function* () {
  const limits = yield* RateLimits
  const measured = yield* MetricsEnabled
  const context = yield* Effect.context<never>()
  const count = (policy: Policy, decision: "allowed" | "refused" | "unavailable") => {
    if (measured) Metric.withAttributes(decisions, { policy, decision }).updateUnsafe(1, context)
  }

  return (bucket, request, now) => {
    const { limit, policy, windowSeconds } = bucket
    return limits.take(bucket, now).pipe(
      Effect.mapErrorEager(() => {
        count(policy, "unavailable")
        return new RateLimiterUnavailable({ detail: "Requests can't be counted right now. Try again in a moment." })
      }),
      Effect.flatMapEager((decision) => {
        count(policy, decision.allowed ? "allowed" : "refused")
        setHeaders(request.headers, bucket, decision)
        if (decision.allowed) return Effect.void
        const detail = `The policy "${policy}" allows ${limit} requests per ${windowSeconds} s.`
        return Effect.fail(new RateLimitExceeded({ detail }))
      })
    )
  }
})

const wholeSeconds = (millis: number) => Math.ceil(millis / 1_000)

/**
 * Structured fields of draft-ietf-httpapi-ratelimit-headers-11. `t` is the effective window: a client that spreads its
 * `r` requests over `t` seconds keeps to the policy's rate, however large the burst that is left (§8.5 of the draft).
 * Without a request left it is the time until the next one, which `Retry-After` never precedes (§6).
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
  if (!allowed) headers["retry-after"] = String(Math.max(1, window))
}
