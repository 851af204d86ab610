/** The middleware of an operation around that of its shape (`RequestShape.ts`), from the outermost to the innermost. */
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { Cause, Clock, Context, Effect, Layer } from "effect"
import { HttpServerRequest } from "effect/http"
import { Access } from "../../api/Access.ts"
import { Authentication, Principal } from "../../api/Authentication.ts"
import { CurrentRequest } from "../../platform/CurrentRequest.ts"
import { monotonicMillis } from "../../platform/MonotonicTime.ts"
import { makeAuthorize } from "../auth/Bearer.ts"
import { makeThrottle } from "../limits/Throttle.ts"
import { Operation } from "../../api/Requests.ts"
import { nameServerSpan } from "../../telemetry/Spans.ts"
import { GivenParts } from "./RequestShape.ts"
import { outcomeUnknown, problemOf, problemResponse } from "./ProblemResponse.ts"

/** Names the route and the span of a request, and renders the problem that ends it. */
export const operation = Layer.succeed(Operation, (operation, { endpoint }) => {
  const { policy } = Context.getUnsafe(endpoint.annotations, Access)
  const spanName = `${endpoint.method} ${endpoint.path}`

  return Effect.withFiber((fiber) => {
    const current = fiber.getRef(CurrentRequest)
    current.route = endpoint.path
    if (policy === "messages") current.unavailable = outcomeUnknown
    // The span of a tool's call keeps the name of the endpoint of agents, which is its route.
    if (fiber.getRef(GivenParts) === undefined) nameServerSpan(fiber.context, spanName)
    return Effect.catchCauseIf(operation, hasFailed, (cause) =>
      Effect.map(problemOf(cause, current), (problem) => problemResponse(problem, current))
    )
  })
})

/** Whether an operation failed. If it was interrupted, the caller has left or the process is ending. */
const hasFailed = (cause: Cause.Cause<unknown>) => !Cause.hasInterruptsOnly(cause)

/**
 * The bearer token: credential (401) → entitlement, module, membership, scope (403) → rate limit (429, 503).
 * A step that need not wait (a known credential, a bucket in memory) runs synchronously, because scheduling it in the fiber costs
 * time.
 */
export const authentication = Layer.effect(
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
