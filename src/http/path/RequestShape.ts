/**
 * The middleware that refuses a request without the shape of its operation (400), and reads the body before (413, 415). The
 * builder of the HttpApi decodes the parts of a request one after the other, and stops at the first fault. So this middleware
 * checks first what decoding does not see, and gathers all faults of all parts (contract §1) once one is found.
 */
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { Context, Effect, type Fiber, JsonPointer, Layer, Schema } from "effect"
import { HttpRouter, HttpServerRequest } from "effect/http"
import { HttpApiError, type HttpApiEndpoint } from "effect/http-api"
import { JsonBody, MaxBody, RequestShape } from "../../api/Requests.ts"
import { ValidationFailed } from "../../api/Problems.ts"
import {
  faultDetail,
  faultsOfBody,
  faultsOfSlot,
  groupFaults,
  type LocatedFault,
  strict,
  unexpectedBody,
  unknownMembers
} from "../../api/schema/Faults.ts"
import { CurrentRequest } from "../../platform/CurrentRequest.ts"
import { isUnsafe, unsafeMessage } from "../../platform/Text.ts"
import { type Body, checkBody, readBody } from "./JsonBody.ts"

/** The parts of a request, over HTTP or as a tool call, before they are decoded. */
export interface Parts {
  readonly params: Readonly<Record<string, unknown>>
  readonly query: Readonly<Record<string, unknown>>
  readonly headers: Readonly<Record<string, unknown>>
  /** Undefined if the operation takes no body. */
  readonly body: Body | undefined
  /** Faults that were found while the parts were read. The decoders can't find these. */
  readonly faults: ReadonlyArray<LocatedFault>
}

/** The parts of a request that are not read from HTTP: the arguments of a tool call. */
export const GivenParts = Context.Reference<Parts | undefined>(
  "developer-api-service/http/path/RequestShape/GivenParts",
  {
    defaultValue: () => undefined
  }
)

/** `JsonBody` does the same for an operation with a body, after it has read the body. */
export const shape = Layer.succeed(RequestShape, (operation, { endpoint }) => {
  if (endpoint.payload.size > 0) return operation
  const checked = checking(endpoint)
  return Effect.withFiber((fiber) => {
    const given = fiber.getRef(GivenParts)
    if (given !== undefined) return checked(operation, given)
    const request = Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest)
    if (endpoint.headers !== undefined) setHeaders(request)
    return Effect.flatMapEager(hasBody(NodeHttpServerRequest.toIncomingMessage(request)), (sent) =>
      checked(operation, partsOf(fiber, undefined, sent))
    )
  })
})

export const body = Layer.succeed(JsonBody, (operation, { endpoint }) => {
  const checked = checking(endpoint)
  const limits = Context.get(endpoint.annotations, MaxBody)
  return Effect.withFiber((fiber) => {
    const request = Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest)
    const given = fiber.getRef(GivenParts)
    if (given !== undefined) {
      if (given.body?.isDecodable === true) setText(request, JSON.stringify(given.body.value))
      return checked(operation, given)
    }
    setHeaders(request)
    return Effect.flatMapEager(readBody(request, fiber.getRef(CurrentRequest), limits), ({ text, value }) => {
      setText(request, text)
      return checked(operation, partsOf(fiber, checkBody(value, limits)))
    })
  })
})

/** Makes a function that runs an operation, or refuses a request that has a fault before or while it is decoded. */
const checking = (endpoint: HttpApiEndpoint.Top) => {
  const query = endpoint.query === undefined ? undefined : Schema.toCodecArrayFromSingle(endpoint.query)
  const bodySchemas = [...endpoint.payload.values()].flatMap(({ schemas }) => schemas)

  /** Gathers every fault. A fault in `faults` replaces the faults that decoding reports at the same location. */
  const refuse = (raw: Parts, faults: ReadonlyArray<LocatedFault>) => {
    const { body } = raw
    const located = new Set(faults.map(([location]) => location))
    const found = [
      ...faultsOfSlot("path", endpoint.params, raw.params, lenient),
      ...faultsOfSlot("header", endpoint.headers, raw.headers, lenient),
      ...faultsOfSlot("query", query, raw.query, strict),
      ...(body?.isDecodable === true ? bodySchemas.flatMap((schema) => faultsOfBody(schema, body.value)) : [])
    ]
    const grouped = groupFaults([
      ...faults,
      ...found.filter(([location]) => !located.has(location) && !isUnsafe(location))
    ])
    return Effect.fail(new ValidationFailed({ detail: faultDetail(grouped), errors: grouped.errors }))
  }
  return <A, E, R>(operation: Effect.Effect<A, E, R>, parts: Parts) => {
    // The faults that the decoders do not see.
    const faults = concatenate(
      parts.faults,
      query === undefined ? unknownMembers("query", parts.query) : none,
      parts.body?.faults ?? none
    )
    return faults.length > 0
      ? refuse(parts, faults)
      : Effect.catchIf(operation, HttpApiError.HttpApiSchemaError.is, () => refuse(parts, none))
  }
}

const partsOf = (fiber: Fiber.Fiber<unknown, unknown>, body: Body | undefined, hasSurplusBody = false): Parts => {
  const { params } = Context.getUnsafe(fiber.context, HttpRouter.RouteContext)
  const query = Context.getUnsafe(fiber.context, HttpServerRequest.ParsedSearchParams)
  const request = Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest)
  const { headers } = NodeHttpServerRequest.toIncomingMessage(request)
  const faults = concatenate(
    request.url.includes("%") ? [...unsafeValues("path", params), ...unsafeValues("query", query)] : none,
    hasSurplusBody ? [unexpectedBody] : none
  )
  return { params, query, headers, body, faults }
}

/** Gives a request the text of its body, which the builder parses. A request with another prototype would cost all its uses time. */
const setText = (request: HttpServerRequest.HttpServerRequest, text: string) =>
  Object.defineProperty(request, "text", { value: Effect.succeed(text) })

/** Sets the headers of a request, which the builder decodes, to Node's own object. By default they are a copy of it. */
const setHeaders = (request: HttpServerRequest.HttpServerRequest) =>
  Object.defineProperty(request, "headers", { value: NodeHttpServerRequest.toIncomingMessage(request).headers })

/** Reports names and values with unsafe characters, which only percent-encoding can contain. */
const unsafeValues = (slot: "path" | "query", values: Readonly<Record<string, unknown>>): ReadonlyArray<LocatedFault> =>
  Object.entries(values)
    .filter(([name, value]) => isUnsafe(`${name} ${String(value)}`))
    .map(([name]) => [isUnsafe(name) ? slot : `${slot}/${JsonPointer.escapeToken(name)}`, unsafeMessage])

type Incoming = ReturnType<typeof NodeHttpServerRequest.toIncomingMessage>

/** Whether a request has a body. Zero bytes in chunked coding are none (RFC 9112, section 6.3), so their end is awaited. */
const hasBody = (message: Incoming): Effect.Effect<boolean> => {
  if (!("transfer-encoding" in message.headers)) {
    return Effect.succeed(Number(message.headers["content-length"] ?? 0) > 0)
  }
  return Effect.callback((resume) => {
    if (message.readableEnded || message.destroyed) return resume(Effect.succeed(false))
    const onData = () => end(true)
    const onEnd = () => end(false)
    const stop = () => message.off("data", onData).off("end", onEnd).off("close", onEnd)
    const end = (found: boolean) => {
      stop()
      resume(Effect.succeed(found))
    }
    message.on("data", onData).on("end", onEnd).on("close", onEnd)
    return Effect.sync(stop)
  })
}

/** The options for path parameters and headers. Names that are not in the schema are ignored. */
const lenient = { errors: "all" } as const

const none: ReadonlyArray<LocatedFault> = []

/** The lists are almost always empty. Then no new list is made. */
const concatenate = (...lists: ReadonlyArray<ReadonlyArray<LocatedFault>>): ReadonlyArray<LocatedFault> =>
  lists.every(({ length }) => length === 0) ? none : lists.flat()
