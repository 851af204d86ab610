/**
 * The path of a request through an operation, by HTTP (`HttpProtocol.ts`) or as a tool (`Mcp/ToolProtocol.ts`). Each endpoint of
 * the HttpApi is compiled once for each protocol, at start. The steps are in the order of the contract's checks (§1): credential
 * → entitlement, module, membership, scope → rate limit → body size and type → shape of the request → handler (idempotency key
 * and effect) → answer. `Lifecycle.ts` refuses faulty headers and unknown routes before these steps, and renders problems after
 * them.
 *
 * If a step fails with a problem, the following steps do not run. If the check of the shape finds a fault, it gathers all faults
 * of the request. A step that need not wait (a known credential, a bucket in memory, a request without a body) runs
 * synchronously, because scheduling it in the fiber costs time.
 */
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { Clock, Context, Effect, type Fiber, Predicate } from "effect"
import { HttpServerRequest } from "effect/http"
import type * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import type * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import { Access } from "../api/Access.ts"
import { Principal } from "../api/Authentication.ts"
import { ProviderOutcomeUnknown } from "../api/Problems.ts"
import { makeAuthorize } from "../platform/requests/auth/Bearer.ts"
import { CurrentRequest } from "../platform/CurrentRequest.ts"
import { monotonicMillis } from "../platform/MonotonicTime.ts"
import { makeThrottle } from "../platform/requests/rateLimit/Throttle.ts"
import { nameServerSpan } from "../platform/telemetry/Telemetry.ts"
import type { BodyProblem } from "./decoding/JsonBody.ts"
import { decoderOf, type Parts } from "./decoding/RequestShape.ts"

export interface Operation {
  readonly group: HttpApiGroup.Top
  readonly endpoint: HttpApiEndpoint.Top
  readonly handler: (request: object) => Effect.Effect<unknown, unknown>
  readonly status: number
}

type Headers = Readonly<Record<string, string>>

/** How the calls of a protocol are read and answered. All other steps of a call are the same for all protocols. */
export interface Protocol<Call, Answer> {
  /** Attributes of the server span, beside its name. */
  readonly attributes: Readonly<Record<string, string>>
  /** Compiles the function that reads the parts of a call. The function runs after the checks of credential and rate limit. */
  readonly partsOf: (
    endpoint: HttpApiEndpoint.Top
  ) => (
    call: Call,
    request: HttpServerRequest.HttpServerRequest,
    fiber: Fiber.Fiber<unknown, unknown>
  ) => Effect.Effect<Parts, BodyProblem>
  /**
   * Compiles the function that renders a success from its body, the headers of the handler (`own`) and those in the state of the
   * request (`collected`).
   */
  readonly answerOf: (operation: Operation) => (body: unknown, own: Headers | undefined, collected: Headers) => Answer
}

export const makeCompile = Effect.gen(function* () {
  const authorize = yield* makeAuthorize
  const throttle = yield* makeThrottle

  return <Call, Answer>(protocol: Protocol<Call, Answer>, operation: Operation) => {
    const { endpoint, group, handler } = operation
    const access = Context.getUnsafe(endpoint.annotations, Access)
    const spanName = `${endpoint.method} ${endpoint.path}`
    const partsOf = protocol.partsOf(endpoint)
    const decode = decoderOf(endpoint, group)
    const answer = protocol.answerOf(operation)
    const carriesHeaders = [...endpoint.success].some(HttpApiSchema.isWithHeaders)

    return (call: Call): Effect.Effect<Answer, unknown> =>
      Effect.withFiber((fiber) => {
        const request = Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest)
        const current = fiber.getRef(CurrentRequest)
        current.route = endpoint.path
        if (access.policy === "messages") current.unavailable = outcomeUnknown
        nameServerSpan(fiber.context, spanName, protocol.attributes)

        const { headers, socket } = NodeHttpServerRequest.toIncomingMessage(request)
        const now = monotonicMillis(fiber.getRef(Clock.Clock))
        return authorize(headers.authorization, socket, access, now).pipe(
          Effect.flatMapEager((credential) => {
            fiber.setContext(Context.add(fiber.context, Principal, credential))
            return throttle(credential.buckets[access.policy], current, now)
          }),
          Effect.flatMapEager(() => partsOf(call, request, fiber)),
          Effect.flatMapEager((parts) => decode(parts, request)),
          Effect.flatMapEager(handler),
          Effect.mapEager((result) =>
            carriesHeaders && hasHeaders(result)
              ? answer(result.body, result.headers, current.headers)
              : answer(result, undefined, current.headers)
          )
        )
      })
  }
})

/** A message send answers this problem instead of `service_unavailable`, except while the project is locked (contract §8). */
export const outcomeUnknown = (detail: string) =>
  new ProviderOutcomeUnknown({ detail: `${detail} Keep the idempotency-key.`, messageId: null })

const hasHeaders = (u: unknown): u is { readonly body: unknown; readonly headers: Headers } =>
  Predicate.hasProperty(u, "body") && Predicate.hasProperty(u, "headers")
