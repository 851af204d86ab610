/**
 * Answers that are sent as handlers return them. Encoding them by their schemas again would double the cost of a list. The contract
 * tests validate every answer against the OpenAPI document.
 */
import { Effect, type Fiber, Predicate } from "effect"
import { HttpServerResponse } from "effect/http"
import * as HttpApi from "effect/http-api/HttpApi"
import type * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import { Api } from "../../api/Api.ts"
import { CurrentRequest } from "../CurrentRequest.ts"

/** Status of the success of each operation. */
const statuses = new Map<string, number>()
HttpApi.reflect(Api, {
  onGroup: () => {},
  onEndpoint: ({ endpoint, successes }) => {
    for (const status of successes.keys()) statuses.set(endpoint.identifier, status)
  }
})

type Handler = (request: { readonly endpoint: HttpApiEndpoint.Top }) => Effect.Effect<unknown, unknown, unknown>

/** The type stays that of the handlers, so that the builder checks it, and knows no whole answers. */
export const sentAsIs = <H extends object>(handlers: H): H => {
  const whole = Object.entries(handlers).map(([name, handler]: [string, Handler]) => [
    name,
    (request: { readonly endpoint: HttpApiEndpoint.Top }) =>
      Effect.withFiber((fiber) =>
        Effect.mapEager(handler(request), (success) => answerOf(success, request.endpoint.identifier, fiber))
      )
  ])
  return { ...handlers, ...Object.fromEntries(whole) }
}

const answerOf = (success: unknown, operation: string, fiber: Fiber.Fiber<unknown, unknown>) => {
  const { body, headers } = hasHeaders(success) ? success : { body: success, headers: {} }
  const response = HttpServerResponse.text(JSON.stringify(body), {
    status: statuses.get(operation) ?? 200,
    contentType: "application/json"
  })
  // `response.headers` belongs to this response alone, so it can be changed. Passing the headers as an option would copy them
  // three times.
  Object.assign(response.headers, fiber.getRef(CurrentRequest).headers, headers)
  return response
}

const hasHeaders = (u: unknown): u is HttpApiSchema.withHeaders<unknown, object> =>
  Predicate.hasProperty(u, HttpApiSchema.WithHeadersValueTypeId)
