/**
 * Implements the groups of the Api by `HttpApiBuilder.group`, with three measures that Effect has no option for. Together they
 * save a fifth of the CPU time of a get and of a create.
 */
import { Context, Effect, type Fiber, Layer, Predicate, Scope } from "effect"
import { HttpServerResponse } from "effect/http"
import * as HttpApi from "effect/http-api/HttpApi"
import type * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import { Api } from "../../api/Api.ts"
import { Authentication } from "../../api/Authentication.ts"
import { JsonBody, Operation, RequestShape } from "../../api/Requests.ts"
import { CurrentRequest } from "../../platform/CurrentRequest.ts"

type OfRequests = Scope.Scope | Operation | Authentication | RequestShape | JsonBody

const ofRequests = Context.pick(Scope.Scope, Operation, Authentication, RequestShape, JsonBody)

/**
 * Builds a group from its operations (`make`), which exist once and outside of any request: handlers that yield services would
 * look them up in each request. Drop this when look-ups no longer show in a profile.
 *
 * The group's context is narrowed to its middleware: the builder merges the whole context with that of each request, which costs
 * a copy of some 60 services. Drop this when the builder merges without a copy.
 */
export const groupOf = <Operations, E, R, A>(
  make: Effect.Effect<Operations, E, R>,
  group: (operations: Operations) => Layer.Layer<A, never, OfRequests>
) =>
  Layer.unwrap(
    Effect.map(make, (operations) =>
      Layer.effectContext(
        Effect.updateContext(Layer.build(group(operations)), (context: Context.Context<OfRequests>) =>
          ofRequests(context)
        )
      )
    )
  )

type Handler = (request: { readonly endpoint: HttpApiEndpoint.Top }) => Effect.Effect<unknown, unknown, unknown>

/**
 * Makes handlers whose answers are sent as they are returned: encoding them by their schemas would double the CPU time of a list,
 * and the contract tests validate every answer against the OpenAPI document. Drop this when the builder encodes at the cost of
 * `JSON.stringify`. The returned handlers have the type of the given ones, so the builder still checks the types of their answers.
 */
export const withoutEncoding = <Handlers extends object>(handlers: Handlers): Handlers => {
  const whole = Object.entries(handlers).map(([name, handler]: [string, Handler]) => [
    name,
    (request: { readonly endpoint: HttpApiEndpoint.Top }) =>
      Effect.withFiber((fiber) =>
        Effect.mapEager(handler(request), (success) => answerOf(success, request.endpoint.identifier, fiber))
      )
  ])
  return { ...handlers, ...Object.fromEntries(whole) }
}

/** Status of the success of each operation. An answer of an operation with several has a member `status`. */
const statuses = new Map<string, number>()
HttpApi.reflect(Api, {
  onGroup: () => {},
  onEndpoint: ({ endpoint, successes }) => {
    for (const status of successes.keys()) statuses.set(endpoint.identifier, status)
  }
})

interface Answer {
  readonly body: unknown
  readonly headers: object
  readonly status?: number
}

const answerOf = (success: unknown, operation: string, fiber: Fiber.Fiber<unknown, unknown>) => {
  if (HttpServerResponse.isHttpServerResponse(success)) {
    return HttpServerResponse.setHeaders(success, fiber.getRef(CurrentRequest).headers)
  }
  const { body, headers, status }: Answer = hasHeaders(success) ? success : { body: success, headers: {} }
  const response = HttpServerResponse.text(JSON.stringify(body), {
    status: status ?? statuses.get(operation) ?? 200,
    contentType: "application/json"
  })
  // `response.headers` belongs to this response alone, so it can be changed. Passing the headers as an option would copy them
  // three times.
  Object.assign(response.headers, fiber.getRef(CurrentRequest).headers, headers)
  return response
}

const hasHeaders = (u: unknown): u is HttpApiSchema.withHeaders<unknown, object> & Answer =>
  Predicate.hasProperty(u, HttpApiSchema.WithHeadersValueTypeId)
