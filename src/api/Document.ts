/** What the OpenAPI document says beyond what the schemas know: scopes, shared headers, examples, names of problems. */
import { Context, Predicate } from "effect"
import { HttpApi, type HttpApiGroup, OpenApi } from "effect/http-api"
import { Access } from "./Access.ts"
import { Examples } from "./Examples.ts"
import { webhooks, webhookSchemas } from "./integrations/WebhooksDocument.ts"

type Headers = Record<string, OpenApi.OpenAPISpecHeader>

const header = (description: string, required = true): OpenApi.OpenAPISpecHeader => ({
  description,
  required,
  schema: { type: "string" }
})

const onEveryAnswer: Headers = {
  "x-request-id": header("The id of the request: its own `x-request-id` where that is well formed, else a new one.")
}

/** The request header that every operation takes beside its own. */
const requestId: OpenApi.OpenAPISpecParameter = {
  name: "x-request-id",
  in: "header",
  required: false,
  description: "Comes back as the answer's `x-request-id`, and stands in the logs; else one is made.",
  schema: { type: "string", pattern: "^[A-Za-z0-9._-]{1,128}$" }
}

const behindTheLimiter: Headers = {
  "ratelimit-policy": header('The bucket: `"read";q=1200;w=60` is 1200 requests per 60 s.'),
  ratelimit: header('Where the bucket stands: `"read";r=1199;t=1` is 1199 left, full again in 1 s.')
}

/** 401 and 403 come before the limiter; 500 and 503 may come from anywhere. */
const byStatus: Readonly<Record<string, Headers>> = {
  401: { "www-authenticate": header("The Bearer challenge (RFC 6750).") },
  403: { "www-authenticate": header("The Bearer challenge (RFC 6750) of `scope_missing`.", false) },
  429: { ...behindTheLimiter, "retry-after": header("Whole seconds after which one more request succeeds.") },
  500: {},
  503: { "retry-after": header("Whole seconds after which to try again.") }
}

const isSpec = (document: object): document is OpenApi.OpenAPISpec => "paths" in document && "components" in document

/** Completes the document that is generated of an API. */
export const documented = <Id extends string, Groups extends HttpApiGroup.Constraint>(
  api: HttpApi.HttpApi<Id, Groups>
): HttpApi.HttpApi<Id, Groups> =>
  api.annotate(OpenApi.Transform, (document) => {
    if (!isSpec(document)) return document
    HttpApi.reflect(api, {
      onGroup: () => {},
      onEndpoint: ({ endpoint }) => {
        const path = document.paths[endpoint.path.replace(/:([A-Za-z]+)/g, "{$1}")]
        const operation = Object.entries(path ?? {}).find(([method]) => method === endpoint.method.toLowerCase())?.[1]
        if (operation !== undefined && "responses" in operation) complete(operation, endpoint.annotations)
      }
    })
    for (const schema of Object.values(document.components.schemas)) completeProblem(schema)
    Object.assign(document, { webhooks })
    document.components.schemas = { ...webhookSchemas, ...document.components.schemas }
    // Problems are called by their code; the suffix tells the wire's form from the program's, which no reader needs.
    return JSON.parse(
      JSON.stringify(document).replace(/"((?:#\/components\/schemas\/)?[a-z_]+)Encoded"(?=[,:}\]])/g, '"$1"')
    )
  })

const complete = (operation: OpenApi.OpenAPISpecOperation, annotations: Context.Context<never>) => {
  const { policy, scope } = Context.getUnsafe(annotations, Access)
  operation.description = `${operation.description ?? ""}\n\nScope: \`${scope}\`.`.trim()

  for (const parameter of operation.parameters) parameter.schema = flat(parameter.schema)
  operation.parameters.push(requestId)

  if (policy === "messages") operation.responses[503] = sendUnavailable
  const examples = Context.getOrUndefined(annotations, Examples)
  exemplify(operation.requestBody?.content, examples?.request)
  for (const [status, response] of Object.entries(operation.responses)) {
    response.headers = { ...onEveryAnswer, ...(byStatus[status] ?? behindTheLimiter), ...response.headers }
    if (Number(status) < 300) exemplify(response.content, examples?.answer)
  }
}

/** The 503 of a send means this one thing, whichever of the problems that all operations share is behind it. */
const sendUnavailable = {
  description: "Nobody knows whether the provider has taken the message.",
  content: {
    "application/problem+json": { schema: { $ref: "#/components/schemas/provider_outcome_unknown" } }
  }
}

/** What every problem carries on the wire, though a program that makes one need not say it. */
const ofEveryProblem = ["type", "title", "status", "instance", "code"]

const completeProblem = (schema: OpenApi.OpenAPISpec["components"]["schemas"][string]) => {
  const { properties, required } = { properties: {}, required: [], ...schema }
  if (!ofEveryProblem.every((member) => Object.hasOwn(properties, member))) return
  Object.assign(schema, { required: [...new Set([...ofEveryProblem, ...required])] })
}

const exemplify = (content: OpenApi.OpenApiSpecContent | undefined, example: unknown) => {
  if (example === undefined) return
  for (const media of Object.values(content ?? {})) Object.assign(media, { example })
}

/** A parameter is a string on the wire, and what its checks say in the document: `limit` is an integer. */
const flat = (schema: object): object => {
  if (!Predicate.hasProperty(schema, "allOf") || !Array.isArray(schema.allOf)) return schema
  const { allOf, ...own } = schema
  return Object.assign({}, own, ...allOf)
}
