/** From what a caller writes to what an endpoint takes, or every fault that keeps it from that. */
import { Result, Schema, SchemaIssue } from "effect"
import type { HttpApiEndpoint } from "effect/http-api"
import { ValidationFailed } from "../api/Problems.ts"

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

/** More in a request than its operation knows is a mistake. */
const strict = { errors: "all", onExcessProperty: "error" } as const

/** No schema of this API needs a service to decode; the framework's types have forgotten that by here. */
const isSelfContained = (schema: Schema.Top): schema is Schema.Top & Schema.ConstraintDecoder<unknown> =>
  Schema.isSchema(schema)

/** Judges requests to an endpoint, and completes them with the defaults that the contract gives to absent members. */
export const requestForm = (endpoint: HttpApiEndpoint.Top) => {
  const payloads = [...endpoint.payload.values()].flatMap(({ schemas }) => [...schemas])
  const judges = {
    params: judge("path", endpoint.params),
    query: judge("query", endpoint.query),
    headers: judge("header", endpoint.headers),
    payload: judge("body", payloads.length === 0 ? undefined : Schema.Union(payloads))
  }
  return ({ headers = {}, params = {}, payload, query = {} }: Written): Result.Result<Complete, ValidationFailed> => {
    const judged = {
      params: judges.params(texts(present(params))),
      query: judges.query(texts(present(query))),
      headers: judges.headers(present(headers)),
      payload: judges.payload(present(payload))
    }
    const found = [...segmentFaults(params), ...Object.values(judged).flatMap(({ faults }) => faults)]
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

type Fault = readonly [location: string, message: string]

const judge = (slot: string, schema: Schema.Top | undefined) => {
  if (schema === undefined || !isSelfContained(schema)) return () => ({ value: undefined, faults: [] })
  const decode = Schema.decodeUnknownResult(schema, strict)
  return (input: unknown): { readonly value: unknown; readonly faults: ReadonlyArray<Fault> } =>
    Result.match(decode(input), {
      onSuccess: (value) => ({ value, faults: [] }),
      onFailure: ({ issue }) => ({ value: undefined, faults: faultsOf(slot, issue) })
    })
}

const refusal = (found: ReadonlyArray<Fault>) => {
  const errors: Record<string, Array<string>> = {}
  for (const [location, message] of found) (errors[location] ??= []).push(message)
  return new ValidationFailed({
    detail: `Not sent. See errors: ${Object.keys(errors).slice(0, 5).join(", ")}.`,
    errors
  })
}

/** What no URL can hold as a segment: it would be resolved away, or has no UTF-8. */
const segmentFaults = (params: object): ReadonlyArray<Fault> =>
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

const format = SchemaIssue.makeFormatterStandardSchemaV1({
  leafHook: (issue) => {
    switch (issue._tag) {
      case "MissingKey":
        return "is required"
      case "UnexpectedKey":
        return "is not known here"
      default:
        return SchemaIssue.defaultLeafHook(issue)
    }
  }
})

const faultsOf = (slot: string, issue: SchemaIssue.Issue): ReadonlyArray<Fault> =>
  format(issue).issues.map(({ message, path = [] }) => {
    const names = path.map((segment) => String(typeof segment === "object" ? segment.key : segment))
    return [[slot, ...names.map(pointer)].join("/"), message]
  })

/** A member's name in a location (RFC 6901). */
const pointer = (name: string) => name.replaceAll("~", "~0").replaceAll("/", "~1")
