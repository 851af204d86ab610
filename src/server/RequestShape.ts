/**
 * Tells every fault of a request at once (contract §1, §2). The framework decodes path, headers, query and body in
 * turn and stops at the first that fails; only then is the rest decoded too.
 */
import { Effect, Layer, Schema } from "effect"
import { HttpRouter, HttpServerRequest } from "effect/http"
import { type HttpApiEndpoint, HttpApiError } from "effect/http-api"
import { gather, type LocatedFault, seeErrors } from "../api/Locations.ts"
import { type Faults, ValidationFailed } from "../api/Problems.ts"
import { RequestShape } from "../api/Requests.ts"
import { bodyOfNone, faultsOfBody, faultsOfNone, faultsOfSlot, strict } from "../api/Shape.ts"
import { CurrentRequest } from "../platform/CurrentRequest.ts"
import { isUnsafe } from "../platform/UnsafeText.ts"
import { faultsOfValue, firstEntries, maxEntries } from "./AnyBody.ts"
import { targetFaults } from "./RequestTarget.ts"

export const layer = Layer.succeed(
  RequestShape,
  RequestShape.of(
    Effect.fnUntraced(function* (operation, { endpoint }) {
      const request = yield* HttpServerRequest.HttpServerRequest
      const known = [
        ...targetFaults((yield* CurrentRequest).target, endpoint.path),
        ...(endpoint.payload.size > 0 ? bodyFaults(yield* Effect.orDie(request.text)) : bodyWhereNone(request))
      ]
      const surplusQuery =
        endpoint.query === undefined && Object.keys(yield* HttpServerRequest.ParsedSearchParams).length > 0
      if (known.length > 0 || surplusQuery) return yield* refuse(request, endpoint, gather(known))
      return yield* Effect.catchIf(
        operation,
        (error): error is typeof error & (HttpApiError.HttpApiSchemaError | ValidationFailed) =>
          (HttpApiError.HttpApiSchemaError.is(error) && isOfRequest(error)) || error instanceof ValidationFailed,
        (error) => refuse(request, endpoint, error instanceof ValidationFailed ? error.errors : {})
      )
    })
  )
)

const isOfRequest = ({ kind }: HttpApiError.HttpApiSchemaError) => kind !== "Body" && kind !== "ResponseHeaders"

const bodyWhereNone = ({ headers }: HttpServerRequest.HttpServerRequest): ReadonlyArray<LocatedFault> =>
  Number(headers["content-length"] ?? 0) > 0 || "transfer-encoding" in headers ? [bodyOfNone] : []

/**
 * What is wrong with a body whatever its schema. Only an escape can bring an unsafe character into a text that is valid
 * UTF-8, and a list beyond the limit takes so many bytes: most bodies aren't looked at.
 */
const bodyFaults = (text: string): ReadonlyArray<LocatedFault> =>
  text.includes("\\u") || text.length > 2 * maxEntries ? [...faultsOfValue(JSON.parse(text))] : []

/** Fails with what is known and with whatever else is wrong in any slot of the request. */
const refuse = Effect.fnUntraced(function* (
  request: HttpServerRequest.HttpServerRequest,
  endpoint: HttpApiEndpoint.Top,
  known: Faults
) {
  const { params } = yield* HttpRouter.RouteContext
  const query = yield* HttpServerRequest.ParsedSearchParams
  let found: ReadonlyArray<LocatedFault> = [
    ...faultsOfSlot("path", endpoint.params, params, { errors: "all" }),
    ...faultsOfSlot("header", endpoint.headers, request.headers, { errors: "all" }),
    ...(endpoint.query === undefined
      ? faultsOfNone("query", query)
      : faultsOfSlot("query", Schema.toCodecArrayFromSingle(endpoint.query), query, strict))
  ]
  for (const { schemas } of endpoint.payload.values()) {
    const body: unknown = JSON.parse(yield* Effect.orDie(request.text))
    const first = firstEntries(body)
    found = found.concat(...schemas.map((schema) => faultsOfBody(schema, body, first)))
  }
  // What was told of the text of a location says more than what became of it in decoding.
  const errors = gather([
    ...Object.entries(known).flatMap(([location, messages]) => messages.map((message) => [location, message] as const)),
    ...found.filter(([location]) => !Object.hasOwn(known, location) && !isUnsafe(location))
  ])
  return yield* new ValidationFailed({ detail: seeErrors(errors), errors })
})
