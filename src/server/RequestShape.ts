/**
 * Tells every fault of a request at once (contract §1, §2). The framework decodes path, headers, query and body in
 * turn and stops at the first that fails; only then is the rest decoded too.
 */
import { Effect, Layer, Predicate, Result, Schema, SchemaIssue } from "effect"
import { HttpRouter, HttpServerRequest } from "effect/http"
import { type HttpApiEndpoint, HttpApiError } from "effect/http-api"
import { type Faults, ValidationFailed } from "../api/Problems.ts"
import { RequestShape } from "../api/Requests.ts"
import { discriminatorOf } from "../api/Variants.ts"
import { faultsOf } from "../platform/Faults.ts"
import { CurrentRequest } from "../platform/CurrentRequest.ts"
import { isUnsafe } from "../platform/UnsafeText.ts"
import { faultsOfValue, firstEntries, gather, type LocatedFault, maxEntries, pointer } from "./Locations.ts"
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
  Number(headers["content-length"] ?? 0) > 0 || "transfer-encoding" in headers
    ? [["body", "must be absent: this operation takes no body"]]
    : []

/**
 * What is wrong with a body whatever its schema. Only an escape can bring an unsafe character into a text that is valid
 * UTF-8, and a list beyond the limit takes so many bytes: most bodies aren't looked at.
 */
const bodyFaults = (text: string): ReadonlyArray<LocatedFault> =>
  text.includes("\\u") || text.length > 2 * maxEntries ? [...faultsOfValue(JSON.parse(text))] : []

/** An operation that declares no query takes none. */
const queryWhereNone = (query: object): ReadonlyArray<LocatedFault> =>
  Object.keys(query).map((name) => [`query/${pointer(name)}`, "is not known here"])

const strict = { errors: "all", onExcessProperty: "error" } as const

/** Fails with what is known and with whatever else is wrong in any slot of the request. */
const refuse = Effect.fnUntraced(function* (
  request: HttpServerRequest.HttpServerRequest,
  endpoint: HttpApiEndpoint.Top,
  known: Faults
) {
  const { params } = yield* HttpRouter.RouteContext
  const query = yield* HttpServerRequest.ParsedSearchParams
  let found: ReadonlyArray<LocatedFault> = [
    ...slot("path", endpoint.params, params, { errors: "all" }),
    ...slot("header", endpoint.headers, request.headers, { errors: "all" }),
    ...(endpoint.query === undefined
      ? queryWhereNone(query)
      : slot("query", Schema.toCodecArrayFromSingle(endpoint.query), query, strict))
  ]
  for (const { schemas } of endpoint.payload.values()) {
    const body: unknown = JSON.parse(yield* Effect.orDie(request.text))
    found = found.concat(...schemas.map(shapeOf(body)), ...schemas.map(rulesOf(body)))
  }
  // What was told of the text of a location says more than what became of it in decoding.
  const errors = gather([
    ...Object.entries(known).flatMap(([location, messages]) => messages.map((message) => [location, message] as const)),
    ...found.filter(([location]) => !Object.hasOwn(known, location) && !isUnsafe(location))
  ])
  const locations = Object.keys(errors)
  return yield* new ValidationFailed({ detail: `See errors: ${locations.slice(0, 5).join(", ")}.`, errors })
})

/**
 * The faults of a body; where nobody can tell which variant of its schema it is, that alone: what else it should be
 * depends on it.
 */
const shapeOf =
  (body: unknown) =>
  (schema: Schema.Top): ReadonlyArray<LocatedFault> => {
    const first = firstEntries(body)
    const discriminator = discriminatorOf(schema)
    if (discriminator === undefined || !Predicate.isObject(body) || !Predicate.isObject(first)) {
      return slot("body", schema, first, strict)
    }
    const { member, values } = discriminator
    if (!Object.hasOwn(body, member)) return [[`body/${member}`, "is required"]]
    const value = body[member]
    return Predicate.isString(value) && values.includes(value)
      ? slot("body", schema, { [member]: value, ...first }, strict)
      : [[`body/${member}`, `must be one of ${values.join(", ")}`]]
  }

/** No schema of this API needs a service to decode; the framework's types have forgotten that by here. */
const isSelfContained = (schema: Schema.Top): schema is Schema.Top & Schema.ConstraintDecoder<unknown> =>
  Schema.isSchema(schema)

/** The faults of one slot, each at its location. */
const slot = (
  name: "path" | "header" | "query" | "body",
  schema: Schema.Top | undefined,
  input: unknown,
  options: { readonly errors: "all"; readonly onExcessProperty?: "error" }
): ReadonlyArray<LocatedFault> => {
  if (schema === undefined || !isSelfContained(schema)) return []
  const result = Schema.decodeUnknownResult(schema, options)(input)
  return Result.isSuccess(result) ? [] : located(name, result.failure.issue)
}

const located = (slot: string, issue: SchemaIssue.Issue): ReadonlyArray<LocatedFault> =>
  faultsOf(issue).map(({ message, path }) => [
    [slot, ...path.map((segment) => pointer(String(segment)))].join("/"),
    message
  ])

/**
 * What the rules between the members of a body say of it. Decoding asks them only once every member is well; those that
 * are marked as structural look at which members are there, and can be asked of anything.
 */
const rulesOf =
  (body: unknown) =>
  ({ ast }: Schema.Top): ReadonlyArray<LocatedFault> =>
    Predicate.isObject(body)
      ? (ast.checks ?? []).flatMap((check) => {
          const isRule = check._tag === "Filter" && check.annotations?.["~structural"] === true
          const issue = isRule ? check.run(body, ast, strict) : undefined
          return issue === undefined || !isRule ? [] : located("body", new SchemaIssue.Filter(check, issue))
        })
      : []
