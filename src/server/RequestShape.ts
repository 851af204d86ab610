/** Decodes each part of a request by a compiled decoder, and reports all faults of all parts in one problem (contract §1). */
import { Effect, Result, Schema } from "effect"
import type { HttpServerRequest } from "effect/http"
import type * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import type * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import type { IncomingHttpHeaders } from "node:http"
import { faultDetail, groupFaults, type LocatedFault } from "../api/Locations.ts"
import { ValidationFailed } from "../api/Problems.ts"
import {
  faultsOfBody,
  faultsOfSlot,
  isSelfContained,
  memberNames,
  strict,
  unexpectedBody,
  unknownMembers
} from "../api/Shape.ts"
import { isUnsafe } from "../platform/UnsafeText.ts"
import { bodyFaults, decodedPart } from "./BodyFaults.ts"
import type { Body } from "./JsonBody.ts"
import { targetFaults } from "./RequestTarget.ts"

/** A request before it is decoded. */
interface RawRequest {
  readonly request: HttpServerRequest.HttpServerRequest
  /** Node's map of its headers. That of `request` is a copy, made when it is first read. */
  readonly headers: IncomingHttpHeaders
  /** Path and query as they were sent. */
  readonly target: string
  /** Percent-decoded path parameters. */
  readonly params: Readonly<Record<string, string | undefined>>
  readonly query: Readonly<Record<string, string | ReadonlyArray<string>>>
  /** Undefined if the operation takes none. */
  readonly body: Body | undefined
}

/** Decodes a request to the argument of its endpoint's handler. */
type DecodeRequest = (raw: RawRequest) => Effect.Effect<object, ValidationFailed>

/** Compiles the decoders of an endpoint. */
export const decoderOf = (endpoint: HttpApiEndpoint.Top, group: HttpApiGroup.Top): DecodeRequest => {
  const query = endpoint.query === undefined ? undefined : Schema.toCodecArrayFromSingle(endpoint.query)
  const bodySchemas = [...endpoint.payload.values()].flatMap(({ schemas }) => schemas)
  const decodeParams = decoder(endpoint.params, lenient)
  const decodeQuery = decoder(query, strict)
  const decodeHeaders = decoder(endpoint.headers, lenient)
  const known = memberNames(bodySchemas)
  const parameters = memberNames([endpoint.query])
  const decodeBody = decoder(bodySchemas.length === 0 ? undefined : Schema.Union(bodySchemas), strict)

  /** Faults that the decoders do not see: encoding, repeats and unsafe text, or a part that the operation lacks. */
  const textFaults = (raw: RawRequest): ReadonlyArray<LocatedFault> =>
    joined(
      targetFaults(raw.target, endpoint.path),
      query === undefined ? unknownMembers("query", raw.query) : none,
      raw.body === undefined ? surplusBody(raw.headers) : bodyFaults(raw.body)
    )

  /** Gathers every fault. A fault of the text at a location replaces what decoding reports there. */
  const refuse = (raw: RawRequest, faults: ReadonlyArray<LocatedFault>) => {
    const { body } = raw
    const decoded = body === undefined || body.value === undefined ? undefined : decodedPart(body, known)
    const located = new Set(faults.map(([location]) => location))
    const found = [
      ...faultsOfSlot("path", endpoint.params, raw.params, lenient),
      ...faultsOfSlot("header", endpoint.headers, raw.headers, lenient),
      // Of too many parameters only the first are decoded, so that a missing one may have been sent.
      ...(located.has("query")
        ? unknownMembers("query", raw.query, parameters)
        : faultsOfSlot("query", query, raw.query, strict)),
      ...(decoded === undefined || body === undefined
        ? []
        : body.extent.omitsMembers
          ? unknownMembers("body", decoded, known)
          : bodySchemas.flatMap((schema) => faultsOfBody(schema, body.value, decoded)))
    ]
    const grouped = groupFaults([
      ...faults,
      ...found.filter(([location]) => !located.has(location) && !isUnsafe(location))
    ])
    return Effect.fail(new ValidationFailed({ detail: faultDetail(grouped), errors: grouped.errors }))
  }

  return (raw) => {
    const faults = textFaults(raw)
    if (faults.length > 0) return refuse(raw, faults)
    const params = decodeParams(raw.params)
    const query = decodeQuery(raw.query)
    const headers = decodeHeaders(raw.headers)
    const payload = decodeBody(raw.body?.value)
    return Result.isSuccess(params) && Result.isSuccess(query) && Result.isSuccess(headers) && Result.isSuccess(payload)
      ? Effect.succeed({
          request: raw.request,
          endpoint,
          group,
          params: params.success,
          query: query.success,
          headers: headers.success,
          payload: payload.success
        })
      : refuse(raw, faults)
  }
}

/** Path parameters and headers: names that the schema lacks are ignored. */
const lenient = { errors: "all" } as const

const absent = Result.succeed(undefined)

/** Compiles the decoder of one part. It returns undefined if the endpoint has no such part. */
const decoder = (
  schema: Schema.Top | undefined,
  options: typeof lenient | typeof strict
): ((input: unknown) => Result.Result<unknown, unknown>) => {
  if (schema === undefined) return () => absent
  if (!isSelfContained(schema)) throw new Error("The schema of a request requires services")
  return Schema.decodeUnknownResult(schema, options)
}

const surplusBody = (headers: IncomingHttpHeaders): ReadonlyArray<LocatedFault> =>
  Number(headers["content-length"] ?? 0) > 0 || "transfer-encoding" in headers ? [unexpectedBody] : none

const none: ReadonlyArray<LocatedFault> = []

/** Concatenates lists of faults, which are almost always empty. */
const joined = (...lists: ReadonlyArray<ReadonlyArray<LocatedFault>>): ReadonlyArray<LocatedFault> =>
  lists.every(({ length }) => length === 0) ? none : lists.flat()
