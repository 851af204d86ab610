/** Decodes each part of a request by a compiled decoder, and reports all faults of all parts in one problem (contract §1). */
import { Effect, Result, Schema } from "effect"
import type { HttpServerRequest } from "effect/http"
import type * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import type * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import { faultDetail, groupFaults, type LocatedFault } from "../../api/schema/Locations.ts"
import { ValidationFailed } from "../../api/Problems.ts"
import {
  faultsOfBody,
  faultsOfSlot,
  isSelfContained,
  memberNames,
  strict,
  unknownMembers
} from "../../api/schema/Shape.ts"
import { isUnsafe } from "../../platform/UnsafeText.ts"
import { bodyFaults, decodedPart } from "./BodyFaults.ts"
import type { Body } from "./JsonBody.ts"

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

/** Decodes the parts of a request to the argument of the operation's handler. */
type DecodeRequest = (
  parts: Parts,
  request: HttpServerRequest.HttpServerRequest
) => Effect.Effect<object, ValidationFailed>

export const decoderOf = (endpoint: HttpApiEndpoint.Top, group: HttpApiGroup.Top): DecodeRequest => {
  const query = endpoint.query === undefined ? undefined : Schema.toCodecArrayFromSingle(endpoint.query)
  const bodySchemas = [...endpoint.payload.values()].flatMap(({ schemas }) => schemas)
  const decodeParams = decoder(endpoint.params, lenient)
  const decodeQuery = decoder(query, strict)
  const decodeHeaders = decoder(endpoint.headers, lenient)
  const known = memberNames(bodySchemas)
  const parameters = memberNames([endpoint.query])
  const decodeBody = decoder(bodySchemas.length === 0 ? undefined : Schema.Union(bodySchemas), strict)

  /**
   * Lists the faults that the decoders do not see: `faults`, query parameters of an operation that takes none, and `bodyFaults`.
   */
  const textFaults = ({ body, faults, query: sent }: Parts): ReadonlyArray<LocatedFault> =>
    concatenate(
      faults,
      query === undefined ? unknownMembers("query", sent) : none,
      body === undefined ? none : bodyFaults(body)
    )

  /** Gathers every fault. A fault in `faults` replaces the faults that decoding reports at the same location. */
  const refuse = (raw: Parts, faults: ReadonlyArray<LocatedFault>) => {
    const { body } = raw
    const decoded = body === undefined || body.value === undefined ? undefined : decodedPart(body, known)
    const located = new Set(faults.map(([location]) => location))
    const found = [
      ...faultsOfSlot("path", endpoint.params, raw.params, lenient),
      ...faultsOfSlot("header", endpoint.headers, raw.headers, lenient),
      // If there are too many parameters, `raw.query` has only the first 100. A required parameter may be among the others, so
      // only unknown parameters are reported.
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

  return (raw, request) => {
    const faults = textFaults(raw)
    if (faults.length > 0) return refuse(raw, faults)
    const params = decodeParams(raw.params)
    const query = decodeQuery(raw.query)
    const headers = decodeHeaders(raw.headers)
    const payload = decodeBody(raw.body?.value)
    return Result.isSuccess(params) && Result.isSuccess(query) && Result.isSuccess(headers) && Result.isSuccess(payload)
      ? Effect.succeed({
          request,
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

/** The options for path parameters and headers. Names that are not in the schema are ignored. */
const lenient = { errors: "all" } as const

const absent = Result.succeed(undefined)

/** Compiles the decoder of one part. If the endpoint has no such part, the decoder returns undefined. */
const decoder = (
  schema: Schema.Top | undefined,
  options: typeof lenient | typeof strict
): ((input: unknown) => Result.Result<unknown, unknown>) => {
  if (schema === undefined) return () => absent
  if (!isSelfContained(schema)) throw new Error("The schema of a request requires services")
  return Schema.decodeUnknownResult(schema, options)
}

export const none: ReadonlyArray<LocatedFault> = []

/** The lists are almost always empty. Then no new list is made. */
export const concatenate = (...lists: ReadonlyArray<ReadonlyArray<LocatedFault>>): ReadonlyArray<LocatedFault> =>
  lists.every(({ length }) => length === 0) ? none : lists.flat()
