/** Counts requests, and tells callers where they stand: the implementation of `RateLimited`. */
import { Context, Duration, Effect, Layer } from "effect"
import { HttpEffect, HttpServerResponse } from "effect/http"
import { Access, type Policy } from "../../api/Access.ts"
import { Principal, type RateLimit } from "../../api/Authentication.ts"
import { RateLimitExceeded, RateLimiterUnavailable } from "../../api/Problems.ts"
import { RateLimited } from "../../api/Requests.ts"
import { type Decision, RateLimits } from "./RateLimits.ts"

export const layer = Layer.effect(
  RateLimited,
  Effect.gen(function* () {
    const limits = yield* RateLimits
    return Effect.fnUntraced(function* (operation, { endpoint }) {
      const { policy } = Context.getUnsafe(endpoint.annotations, Access)
      const { projectId, rateLimits } = yield* Principal
      const limit = rateLimits[policy]
      const decision = yield* Effect.mapError(
        limits.take(projectId, policy, limit),
        () => new RateLimiterUnavailable({ detail: "Requests can't be counted right now. Try again in a moment." })
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
