/** Rate limiting of a request, with the headers that report the bucket (contract §4). */
import { Effect, Metric } from "effect"
import type { Policy } from "../../api/Access.ts"
import type { RateLimit } from "../../api/Authentication.ts"
import type { ProjectId } from "../../api/Ids.ts"
import { RateLimitExceeded, RateLimiterUnavailable } from "../../api/Problems.ts"
import type { CurrentRequestShape } from "../CurrentRequest.ts"
import { MetricsEnabled } from "../MetricsEnabled.ts"
import { RateLimits } from "./RateLimits.ts"
import type { Decision } from "./TokenBuckets.ts"

const decisions = Metric.counter("rate_limit_decisions_total", {
  description: "Decisions of the rate limiter, by policy and decision",
  incremental: true
})

/** Takes a token for a request, and adds the headers of the bucket to its answer. */
type Throttle = (
  policy: Policy,
  principal: { readonly projectId: ProjectId; readonly rateLimits: Readonly<Record<Policy, RateLimit>> },
  request: CurrentRequestShape
) => Effect.Effect<void, RateLimitExceeded | RateLimiterUnavailable>

export const makeThrottle: Effect.Effect<Throttle, never, RateLimits> = Effect.gen(function* () {
  const limits = yield* RateLimits
  const measured = yield* MetricsEnabled
  const context = yield* Effect.context<never>()
  const count = (policy: Policy, decision: "allowed" | "refused" | "unavailable") => {
    if (measured) Metric.withAttributes(decisions, { policy, decision }).updateUnsafe(1, context)
  }

  return (policy, { projectId, rateLimits }, request) => {
    const limit = rateLimits[policy]
    return Effect.matchEffect(limits.take(projectId, policy, limit), {
      onFailure: () => {
        count(policy, "unavailable")
        return Effect.fail(
          new RateLimiterUnavailable({ detail: "Requests can't be counted right now. Try again in a moment." })
        )
      },
      onSuccess: (decision) => {
        count(policy, decision.allowed ? "allowed" : "refused")
        setHeaders(request.headers, policy, limit, decision)
        if (decision.allowed) return Effect.void
        const detail = `The policy "${policy}" allows ${limit.limit} requests per ${limit.windowSeconds} s.`
        return Effect.fail(new RateLimitExceeded({ detail }))
      }
    })
  }
})

const wholeSeconds = (millis: number) => Math.ceil(millis / 1_000)

/** Structured fields of draft-ietf-httpapi-ratelimit-headers-10. */
const setHeaders = (
  headers: Record<string, string>,
  policy: Policy,
  { limit, windowSeconds }: RateLimit,
  { allowed, fullAfter, remaining, retryAfter }: Decision
) => {
  headers["ratelimit-policy"] = `"${policy}";q=${limit};w=${windowSeconds}`
  headers["ratelimit"] = `"${policy}";r=${Math.floor(remaining)};t=${wholeSeconds(fullAfter)}`
  if (!allowed) headers["retry-after"] = String(Math.max(1, wholeSeconds(retryAfter)))
}
