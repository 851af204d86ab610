/** From what a caller writes to what an endpoint takes, or every fault that keeps it from that. */
import { Result, Schema } from "effect"
import type * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import { gather, type LocatedFault, pointer, seeErrors } from "../api/Locations.ts"
import { ValidationFailed } from "../api/Problems.ts"
import { bodyOfNone, faultsOfBody, faultsOfNone, faultsOfSlot, isSelfContained, strict } from "../api/Shape.ts"

/** A request as a caller writes it. A member that is undefined is absent, as it is in JSON. */
export interface Written {
  readonly params?: object | undefined
  readonly query?: object | undefined
  readonly headers?: object | undefined
  readonly payload?: unknown
}

/** A request as the endpoint's schemas have it. */
export interface Complete {
  readonly params: unknown
  readonly query: unknown
  readonly headers: unknown
  readonly payload: unknown
}

/** Judges requests to an endpoint, and completes them with the defaults that the contract gives to absent members. */
export const requestForm = (endpoint: HttpApiEndpoint.Top) => {
  const judges = {
    params: slotJudge("path", endpoint.params),
    query: slotJudge("query", endpoint.query),
    headers: slotJudge("header", endpoint.headers),
    payload: bodyJudge([...endpoint.payload.values()].flatMap(({ schemas }) => [...schemas]))
  }
  return (request: Written): Result.Result<Complete, ValidationFailed> => {
    const { headers = {}, params = {}, payload, query = {}, ...others } = request
    const judged = {
      params: judges.params(texts(present(params))),
      query: judges.query(texts(present(query))),
      headers: judges.headers(present(headers)),
      payload: judges.payload(present(payload))
    }
    const found = [
      ...surplus(others),
      ...segmentFaults(params),
      ...Object.values(judged).flatMap(({ faults }) => faults)
    ]
    if (found.length > 0) return Result.fail(refusal(found))
    return Result.succeed({
      params: judged.params.value,
      query: judged.query.value,
      headers: judged.headers.value,
      payload: judged.payload.value
    })
  }
}

/** Whether an object of the schema can have the member. */
export const hasMember = (schema: Schema.Top | undefined, member: string): boolean =>
  schema?.ast._tag === "Objects" && schema.ast.propertySignatures.some(({ name }) => name === member)

interface Judged {
  readonly value: unknown
  readonly faults: ReadonlyArray<LocatedFault>
}

/** More in a request than its operation knows is a mistake, in each part of it. */
const slotJudge = (name: "path" | "query" | "header", schema: Schema.Top | undefined) =>
  schema === undefined
    ? (input: unknown): Judged => ({ value: undefined, faults: faultsOfNone(name, Object(input)) })
    : judge(schema, (input) => faultsOfSlot(name, schema, input, strict))

const bodyJudge = (schemas: ReadonlyArray<Schema.Top>) =>
  schemas.length === 0
    ? (input: unknown): Judged => ({ value: undefined, faults: input === undefined ? [] : [bodyOfNone] })
    : judge(Schema.Union(schemas), (input) => schemas.flatMap((schema) => faultsOfBody(schema, input)))

const judge = (schema: Schema.Top, faultsOf: (input: unknown) => ReadonlyArray<LocatedFault>) => {
  if (!isSelfContained(schema)) return (input: unknown): Judged => ({ value: input, faults: [] })
  const decode = Schema.decodeUnknownResult(schema, strict)
  return (input: unknown): Judged =>
    Result.match(decode(input), {
      onSuccess: (value) => ({ value, faults: [] }),
      onFailure: () => ({ value: undefined, faults: faultsOf(input) })
    })
}

const refusal = (found: ReadonlyArray<LocatedFault>) => {
  const gathered = gather(found)
  return new ValidationFailed({ detail: `Not sent. ${seeErrors(gathered)}`, errors: gathered.errors })
}

/** `signal` in place of the options, `body` in place of `payload`: dropping it would be worse than refusing it. */
const surplus = (others: object): ReadonlyArray<LocatedFault> =>
  Object.entries(others).flatMap(([name, value]) =>
    value === undefined
      ? []
      : [[pointer(name), "is not known here: a request has params, query, headers and payload"] as const]
  )

/** What no URL can hold as a segment: it would be resolved away, or has no UTF-8. */
const segmentFaults = (params: object): ReadonlyArray<LocatedFault> =>
  Object.entries(params).flatMap(([name, value]) =>
    typeof value === "string" && (value === "." || value === ".." || !value.isWellFormed())
      ? [[`path/${pointer(name)}`, "can't be sent in a path"]]
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

/** Paths and queries are text, numbers included. */
const texts = (value: unknown): unknown =>
  isPlain(value)
    ? Object.fromEntries(
        Object.entries(value).map(([name, member]) => [name, typeof member === "number" ? String(member) : member])
      )
    : value
