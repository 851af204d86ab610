/** Validates the request of a caller for an endpoint and adds defaults, or lists all faults of the request. */
import { JsonPointer, Result, Schema } from "effect"
import type * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import { faultDetail, groupFaults, type LocatedFault } from "../api/schema/Locations.ts"
import { ValidationFailed } from "../api/Problems.ts"
import {
  faultsOfBody,
  faultsOfSlot,
  namesOf,
  isSelfContained,
  strict,
  unexpectedBody,
  unknownMembers
} from "../api/schema/Shape.ts"

/** A request of a caller. A member that is undefined counts as absent, as in JSON. */
export interface CallerRequest {
  readonly params?: object | undefined
  readonly query?: object | undefined
  readonly headers?: object | undefined
  readonly payload?: unknown
}

/** A request with all defaults, decoded by the schemas of the endpoint. */
export interface CompleteRequest {
  readonly params: unknown
  readonly query: unknown
  readonly headers: unknown
  readonly payload: unknown
}

export const requestForm = (endpoint: HttpApiEndpoint.Top) => {
  const decoders = {
    params: slotDecoder("path", endpoint.params),
    query: slotDecoder("query", endpoint.query),
    headers: slotDecoder("header", endpoint.headers),
    payload: bodyDecoder([...endpoint.payload.values()].flatMap(({ schemas }) => [...schemas]))
  }
  return (request: CallerRequest): Result.Result<CompleteRequest, ValidationFailed> => {
    const { headers = {}, params = {}, payload, query = {}, ...others } = request
    const parts = {
      params: decoders.params(texts(present(params))),
      query: decoders.query(texts(present(query))),
      headers: decoders.headers(present(headers)),
      payload: decoders.payload(present(payload))
    }
    const found = [
      ...surplus(others),
      ...segmentFaults(params),
      ...Object.values(parts).flatMap(({ faults }) => faults)
    ]
    if (found.length > 0) return Result.fail(refusal(found))
    return Result.succeed({
      params: parts.params.value,
      query: parts.query.value,
      headers: parts.headers.value,
      payload: parts.payload.value
    })
  }
}

export const hasMember = (schema: Schema.Top | undefined, member: string): boolean =>
  schema !== undefined && namesOf(schema).includes(member)

interface Decoded {
  readonly value: unknown
  readonly faults: ReadonlyArray<LocatedFault>
}

/** Unknown members are faults in every part of a request. */
const slotDecoder = (name: "path" | "query" | "header", schema: Schema.Top | undefined) =>
  schema === undefined
    ? (input: unknown): Decoded => ({ value: undefined, faults: unknownMembers(name, Object(input)) })
    : decoder(schema, (input) => faultsOfSlot(name, schema, input, strict))

const bodyDecoder = (schemas: ReadonlyArray<Schema.Top>) =>
  schemas.length === 0
    ? (input: unknown): Decoded => ({ value: undefined, faults: input === undefined ? [] : [unexpectedBody] })
    : decoder(Schema.Union(schemas), (input) => schemas.flatMap((schema) => faultsOfBody(schema, input)))

const decoder = (schema: Schema.Top, faultsOf: (input: unknown) => ReadonlyArray<LocatedFault>) => {
  if (!isSelfContained(schema)) return (input: unknown): Decoded => ({ value: input, faults: [] })
  const decode = Schema.decodeUnknownResult(schema, strict)
  return (input: unknown): Decoded =>
    Result.match(decode(input), {
      onSuccess: (value) => ({ value, faults: [] }),
      onFailure: () => ({ value: undefined, faults: faultsOf(input) })
    })
}

const refusal = (found: ReadonlyArray<LocatedFault>) => {
  const grouped = groupFaults(found)
  return new ValidationFailed({ detail: `Not sent. ${faultDetail(grouped)}`, errors: grouped.errors })
}

/** Reports members that no request has, such as `signal` or `body`. Ignoring them would hide a mistake. */
const surplus = (others: object): ReadonlyArray<LocatedFault> =>
  Object.entries(others).flatMap(([name, value]) =>
    value === undefined
      ? []
      : [
          [
            JsonPointer.escapeToken(name),
            "is not known here: a request has params, query, headers and payload"
          ] as const
        ]
  )

/** Reports segments that no URL can contain: unpaired surrogates, and `.` and `..`, which URLs resolve away. */
const segmentFaults = (params: object): ReadonlyArray<LocatedFault> =>
  Object.entries(params).flatMap(([name, value]) =>
    typeof value === "string" && (value === "." || value === ".." || !value.isWellFormed())
      ? [[`path/${JsonPointer.escapeToken(name)}`, "can't be sent in a path"]]
      : []
  )

const isPlain = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype

const present = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(present)
  if (!isPlain(value)) return value
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, member]) => (member === undefined ? [] : [[name, present(member)]]))
  )
}

/** Converts numbers to text, because the values of paths and queries are text. */
const texts = (value: unknown): unknown =>
  isPlain(value)
    ? Object.fromEntries(
        Object.entries(value).map(([name, member]) => [name, typeof member === "number" ? String(member) : member])
      )
    : value
