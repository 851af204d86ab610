/** Reads the input of an operation from the path, query, headers and body of a request, and writes the answer as JSON. */
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { Context, Effect } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import type * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import type { IncomingHttpHeaders } from "node:http"
import type { LocatedFault } from "../api/schema/Locations.ts"
import { unexpectedBody } from "../api/schema/Shape.ts"
import { CurrentRequest } from "../platform/CurrentRequest.ts"
import { readBody } from "./decoding/JsonBody.ts"
import type { Protocol } from "./RequestPath.ts"
import { concatenate, none } from "./decoding/RequestShape.ts"
import { targetFaults } from "./decoding/RequestTarget.ts"

/** The HTTP protocol. A call carries no value (`void`), because the fiber's context already has the request. */
export const http: Protocol<void, HttpServerResponse.HttpServerResponse> = {
  attributes: {},
  partsOf: ({ headers: taken, path, payload }: HttpApiEndpoint.Top) => {
    const takesBody = payload.size > 0
    const takesKey = taken !== undefined
    return (_, request, fiber) => {
      const current = fiber.getRef(CurrentRequest)
      const { params } = Context.getUnsafe(fiber.context, HttpRouter.RouteContext)
      const query = Context.getUnsafe(fiber.context, HttpServerRequest.ParsedSearchParams)
      // Reads Node's own headers. Reading `request.headers` would copy them.
      const incoming = NodeHttpServerRequest.toIncomingMessage(request)
      const { headers } = incoming
      const faults = concatenate(targetFaults(current.target, path), takesKey ? repeatedKey(incoming) : none)
      if (!takesBody) {
        return Effect.succeed({
          params,
          query,
          headers,
          body: undefined,
          faults: concatenate(faults, surplusBody(headers))
        })
      }
      return Effect.mapEager(readBody(request, current), (body) => ({ params, query, headers, body, faults }))
    }
  },
  // A handler returns a body that is already encoded. Encoding it again by its schema would double the cost of a list. The
  // contract tests validate every answer against the OpenAPI document.
  answerOf:
    ({ status }) =>
    (body, own, collected) => {
      const response = HttpServerResponse.text(JSON.stringify(body), { status, contentType: "application/json" })
      // `response.headers` belongs to this response alone, so it can be changed. Passing the headers as an option would copy
      // them three times.
      Object.assign(response.headers, collected, own)
      return response
    }
}

/** Reports an `idempotency-key` that was sent more than once. Node joins the values by ", ", so the decoder sees one value. */
const repeatedKey = ({
  headers,
  rawHeaders
}: ReturnType<typeof NodeHttpServerRequest.toIncomingMessage>): ReadonlyArray<LocatedFault> =>
  headers["idempotency-key"]?.includes(", ") === true &&
  rawHeaders.filter((name, i) => i % 2 === 0 && name.toLowerCase() === "idempotency-key").length > 1
    ? [["header/idempotency-key", "must not be repeated"]]
    : none

const surplusBody = (headers: IncomingHttpHeaders): ReadonlyArray<LocatedFault> =>
  Number(headers["content-length"] ?? 0) > 0 || "transfer-encoding" in headers ? [unexpectedBody] : none
