/** Counts requests, and tells callers where they stand: the implementation of `RateLimited`. */
import { Context, Duration, Effect, Layer, Metric } from "effect"
import { HttpEffect, HttpServerResponse } from "effect/http"
import { Access, type Policy } from "../../api/Access.ts"
import { Principal, type RateLimit } from "../../api/Authentication.ts"
import { RateLimitExceeded, RateLimiterUnavailable } from "../../api/Problems.ts"
import { RateLimited } from "../../api/Requests.ts"
import { Measured } from "../Measured.ts"
import { type Decision, RateLimits } from "./RateLimits.ts"

const decisions = Metric.counter("rate_limit_decisions_total", {
  description: "Requests that were counted, by policy and by what the bucket said",
  incremental: true
})

const count = (policy: Policy, decision: "allowed" | "refused" | "unavailable") =>
  Metric.update(Metric.withAttributes(decisions, { policy, decision }), 1)

export const layer = Layer.effect(
  RateLimited,
  Effect.gen(function* () {
    const limits = yield* RateLimits
    const counted = (yield* Measured) ? count : () => Effect.void
    return Effect.fnUntraced(function* (operation, { endpoint }) {
      const { policy } = Context.getUnsafe(endpoint.annotations, Access)
      const { projectId, rateLimits } = yield* Principal
      const limit = rateLimits[policy]
      const decision = yield* limits.take(projectId, policy, limit).pipe(
        Effect.tap(({ allowed }) => counted(policy, allowed ? "allowed" : "refused")),
        Effect.tapError(() => counted(policy, "unavailable")),
        Effect.mapError(
          () => new RateLimiterUnavailable({ detail: "Requests can't be counted right now. Try again in a moment." })
        )
      )
      const headers = headersOf(policy, limit, decision)
      yield* HttpEffect.appendPreResponseHandler((_, response) =>
        Effect.succeed(HttpServerResponse.setHeaders(response, headers))
      )
      if (!decision.allowed) {
        return yield* new RateLimitExceeded({
          detail: `The policy "${policy}" allows ${limit.limit} requests per ${limit.windowSeconds} s.`
        })
      }
      return yield* operation
    })
  })
)

const wholeSeconds = (duration: Duration.Duration) => Math.ceil(Duration.toSeconds(duration))

/** Structured fields of draft-ietf-httpapi-ratelimit-headers-10. */
const headersOf = (policy: Policy, { limit, windowSeconds }: RateLimit, decision: Decision) => ({
  "ratelimit-policy": `"${policy}";q=${limit};w=${windowSeconds}`,
  ratelimit: `"${policy}";r=${Math.floor(decision.remaining)};t=${wholeSeconds(decision.full)}`,
  ...(decision.allowed ? {} : { "retry-after": String(Math.max(1, wholeSeconds(decision.retryAfter))) })
})
