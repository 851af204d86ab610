/**
 * The path of a request through an operation. Each endpoint of the HttpApi is compiled once, at start, to one effect. Its
 * steps are in the order of the contract's checks (§1): credential → entitlement, module, membership, scope → rate limit →
 * body size and type → shape of the request → handler (idempotency key and effect) → answer. `Lifecycle.ts` has the routing
 * before them and the rendering of problems after them.
 *
 * A step that fails with a problem ends the path. Only then are all faults of the request gathered. A step that need not wait
 * (a known credential, a bucket in memory, a request without a body) is done at once, without an operation of the fiber.
 */
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { Clock, Context, Effect, Predicate } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import type * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import type * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import { Access } from "../api/Access.ts"
import { Principal } from "../api/Authentication.ts"
import { ProviderOutcomeUnknown } from "../api/Problems.ts"
import { makeAuthorize } from "../platform/auth/Bearer.ts"
import { CurrentRequest } from "../platform/CurrentRequest.ts"
import { monotonicMillis } from "../platform/MonotonicTime.ts"
import { makeThrottle } from "../platform/rateLimit/Throttle.ts"
import { nameServerSpan } from "../platform/Telemetry.ts"
import { readBody } from "./JsonBody.ts"
import { decoderOf } from "./RequestShape.ts"

/** An endpoint with its handler. */
export interface Operation {
  readonly group: HttpApiGroup.Top
  readonly endpoint: HttpApiEndpoint.Top
  readonly handler: (request: object) => Effect.Effect<unknown, unknown>
  /** Status of its success. */
  readonly status: number
}

/** Compiles operations to the effects that answer them. */
export const makeCompile = Effect.gen(function* () {
  const authorize = yield* makeAuthorize
  const throttle = yield* makeThrottle

  return ({
    endpoint,
    group,
    handler,
    status
  }: Operation): Effect.Effect<HttpServerResponse.HttpServerResponse, unknown> => {
    const access = Context.getUnsafe(endpoint.annotations, Access)
    const spanName = `${endpoint.method} ${endpoint.path}`
    const takesBody = endpoint.payload.size > 0
    const decode = decoderOf(endpoint, group)
    const answer = answerOf(endpoint, status)

    return Effect.withFiber((fiber) => {
      const request = Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest)
      const { params } = Context.getUnsafe(fiber.context, HttpRouter.RouteContext)
      const query = Context.getUnsafe(fiber.context, HttpServerRequest.ParsedSearchParams)
      const current = fiber.getRef(CurrentRequest)
      current.route = endpoint.path
      if (access.policy === "messages") current.unavailable = outcomeUnknown
      nameServerSpan(fiber.context, spanName)

      const { headers, socket } = NodeHttpServerRequest.toIncomingMessage(request)
      const now = monotonicMillis(fiber.getRef(Clock.Clock))
      return authorize(headers.authorization, socket, access, now).pipe(
        Effect.flatMapEager((credential) => {
          fiber.setContext(Context.add(fiber.context, Principal, credential))
          return throttle(credential.buckets[access.policy], current, now)
        }),
        Effect.flatMapEager(() => (takesBody ? readBody(request, current) : Effect.undefined)),
        Effect.flatMapEager((body) => decode({ request, headers, target: current.target, params, query, body })),
        Effect.flatMapEager(handler),
        Effect.mapEager((result) => answer(result, current.headers))
      )
    })
  }
})

/** Every 503 of a message send is this problem, whatever its cause (contract §4). */
export const outcomeUnknown = (detail: string) =>
  new ProviderOutcomeUnknown({ detail: `${detail} Keep the idempotency-key.`, messageId: null })

/**
 * Renders the handler's result, with the headers collected for the answer. Its types are those of the wire, so it is
 * serialized without its schema, which would double the cost of a list; the contract tests validate every answer against the
 * document.
 */
const answerOf = (endpoint: HttpApiEndpoint.Top, status: number) => {
  const carriesHeaders = [...endpoint.success].some(HttpApiSchema.isWithHeaders)
  return (result: unknown, headers: Readonly<Record<string, string>>) =>
    carriesHeaders && hasHeaders(result)
      ? json(result.body, status, headers, result.headers)
      : json(result, status, headers)
}

const hasHeaders = (u: unknown): u is { readonly body: unknown; readonly headers: Record<string, string> } =>
  Predicate.hasProperty(u, "body") && Predicate.hasProperty(u, "headers")

const json = (
  body: unknown,
  status: number,
  headers: Readonly<Record<string, string>>,
  own?: Readonly<Record<string, string>>
) => {
  const response = HttpServerResponse.text(JSON.stringify(body), { status, contentType: "application/json" })
  // The map was made for this response. To pass the headers as an option would copy them three times.
  Object.assign(response.headers, headers, own)
  return response
}
