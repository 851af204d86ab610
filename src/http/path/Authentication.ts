/**
 * The middleware of the bearer token: credential (401) → entitlement, module, membership, scope (403) → rate limit (429, 503).
 * A step that need not wait (a known credential, a bucket in memory) runs synchronously, because scheduling it in the fiber costs
 * time.
 */
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { Clock, Context, Effect, Layer } from "effect"
import { HttpServerRequest } from "effect/http"
import { Access } from "../../api/Access.ts"
import { Authentication, Principal } from "../../api/Authentication.ts"
import { CurrentRequest } from "../../platform/CurrentRequest.ts"
import { monotonicMillis } from "../../platform/MonotonicTime.ts"
import { makeAuthorize } from "../auth/Bearer.ts"
import { makeThrottle } from "../limits/Throttle.ts"

export const layer = Layer.effect(
  Authentication,
  Effect.gen(function* () {
    const authorize = yield* makeAuthorize
    const throttle = yield* makeThrottle

    return Authentication.of((operation, { endpoint }) => {
      const access = Context.getUnsafe(endpoint.annotations, Access)
      return Effect.withFiber((fiber) => {
        const request = Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest)
        const { headers, socket } = NodeHttpServerRequest.toIncomingMessage(request)
        const now = monotonicMillis(fiber.getRef(Clock.Clock))
        const current = fiber.getRef(CurrentRequest)
        return Effect.flatMapEager(authorize(headers.authorization, socket, access, now, current), (credential) =>
          Effect.flatMapEager(throttle(credential.buckets[access.policy], current, now), () =>
            Effect.provideService(operation, Principal, credential)
          )
        )
      })
    })
  })
)
