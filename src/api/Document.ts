/** Additions to the generated OpenAPI document: scopes, shared headers, examples, names of problems. */
import { Context, Predicate } from "effect"
import * as HttpApi from "effect/http-api/HttpApi"
import type * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as OpenApi from "effect/http-api/OpenApi"
import { Access } from "./Access.ts"
import { introduction } from "./Document/Introduction.ts"
import { completeProblems, describeProblems, renameToCodes } from "./Document/Problems.ts"
import { Examples } from "./Examples.ts"
import { webhooks, webhookSchemas } from "./integrations/WebhooksDocument.ts"

type Headers = Record<string, OpenApi.OpenAPISpecHeader>

const header = (description: string, required = true): OpenApi.OpenAPISpecHeader => ({
  description,
  required,
  schema: { type: "string" }
})

const onEveryAnswer: Headers = {
  "x-request-id": header("The id of the request: its own `x-request-id` if that is well formed, otherwise a new one.")
}

/** The request header that every operation accepts. */
const requestId: OpenApi.OpenAPISpecParameter = {
  name: "x-request-id",
  in: "header",
  required: false,
  description: "Returned as the answer's `x-request-id` and logged. If it is absent, the service makes one.",
  schema: { type: "string", pattern: "^[A-Za-z0-9._-]{1,128}$" }
}

const behindTheLimiter: Headers = {
  "ratelimit-policy": header('The bucket: `"read";q=1200;w=60` is 1200 requests per 60 s.'),
  ratelimit: header('The state of the bucket: `"read";r=1199;t=1` is 1199 left, full again in 1 s.')
}

/** 401 and 403 are decided before the limiter; 500 and 503 may be answered at any step. */
const byStatus: Readonly<Record<string, Headers>> = {
  401: { "www-authenticate": header("The Bearer challenge (RFC 6750).") },
  403: { "www-authenticate": header("The Bearer challenge (RFC 6750) of `scope_missing`.", false) },
  429: { ...behindTheLimiter, "retry-after": header("Whole seconds after which one more request succeeds.") },
  500: {},
  503: { "retry-after": header("Whole seconds after which to try again.") }
}

/** Descriptions of parameters whose schema does not explain them. */
const parameters: Readonly<Record<string, string>> = {
  "query/status": "Only records of this status; `all` does not filter.",
  "query/lifecycle": "Only records of this lifecycle; `all` does not filter.",
  "query/limit": "Maximum number of items on a page.",
  "query/cursor": "The `nextCursor` of the page before, for the same filters.",
  "query/expectedVersion":
    "The `version` that the caller has read (the ETag of the last answer); another version is refused.",
  "query/expectedProjectId": "The project that the caller expects; a token of another project is refused.",
  "path/clientId": "The client's id.",
  "path/dealId": "The deal's id.",
  "path/noteId": "The note's id.",
  "path/ticketId": "The ticket's id.",
  "path/conversationId": "The conversation's UUID, in either case.",
  "path/campaignId": "The campaign's id.",
  "path/installationId": "The installation's id.",
  "path/deliveryId": "The delivery's id: the `webhook-id` of its attempts."
}

const isSpec = (document: object): document is OpenApi.OpenAPISpec => "paths" in document && "components" in document

/** Completes the generated document of an API. */
export const documented = <Id extends string, Groups extends HttpApiGroup.Constraint>(
  api: HttpApi.HttpApi<Id, Groups>
): HttpApi.HttpApi<Id, Groups> =>
  api.annotate(OpenApi.Transform, (document) => {
    if (!isSpec(document)) return document
    const titles = completeProblems(document.components.schemas)
    HttpApi.reflect(api, {
      onGroup: () => {},
      onEndpoint: ({ endpoint }) => {
        const path = document.paths[endpoint.path.replace(/:([A-Za-z]+)/g, "{$1}")]
        const operation = Object.entries(path ?? {}).find(([method]) => method === endpoint.method.toLowerCase())?.[1]
        if (operation !== undefined && "responses" in operation) complete(operation, endpoint.annotations, titles)
      }
    })
    Object.assign(document.info, { description: introduction, license: { name: "MIT", identifier: "MIT" } })
    Object.assign(document, { webhooks })
    document.components.schemas = { ...webhookSchemas, ...document.components.schemas }
    return JSON.parse(renameToCodes(JSON.stringify(document)))
  })

const complete = (
  operation: OpenApi.OpenAPISpecOperation,
  annotations: Context.Context<never>,
  titles: ReadonlyMap<string, string>
) => {
  const { policy, scope } = Context.getUnsafe(annotations, Access)
  operation.description = `${operation.description ?? ""}\n\nScope: \`${scope}\`.`.trim()

  for (const parameter of operation.parameters) {
    parameter.schema = flat(parameter.schema)
    parameter.description = parameters[`${parameter.in}/${parameter.name}`] ?? descriptionOf(parameter.schema)
  }
  operation.parameters.push(requestId)

  if (policy === "messages") operation.responses[503] = sendUnavailable
  const examples = Context.getOrUndefined(annotations, Examples)
  exemplify(operation.requestBody?.content, examples?.request)
  for (const [status, response] of Object.entries(operation.responses)) {
    response.headers = { ...onEveryAnswer, ...(byStatus[status] ?? behindTheLimiter), ...response.headers }
    if (Number(status) < 300) {
      exemplify(response.content, examples?.answer)
      response.description = "Success."
    } else response.description = describeProblems(titles, response)
  }
}

/**
 * The 503 of a send. Every shared problem with this status is answered as `provider_outcome_unknown`, except that of a locked
 * project, as no provider was called then.
 */
const sendUnavailable = {
  description:
    "`provider_outcome_unknown`: it is unknown whether the provider accepted the message. `service_unavailable`: a project file is being applied, and no provider was called.",
  content: {
    "application/problem+json": {
      schema: {
        oneOf: [
          { $ref: "#/components/schemas/provider_outcome_unknown" },
          { $ref: "#/components/schemas/service_unavailable" }
        ]
      }
    }
  }
}

const exemplify = (content: OpenApi.OpenApiSpecContent | undefined, example: unknown) => {
  if (example === undefined) return
  for (const media of Object.values(content ?? {})) Object.assign(media, { example })
}

/** Replaces the string type of a parameter by the type that its checks declare: `limit` is an integer. */
const flat = (schema: object): object => {
  if (!Predicate.hasProperty(schema, "allOf") || !Array.isArray(schema.allOf)) return schema
  const { allOf, ...own } = schema
  return Object.assign({}, own, ...allOf)
}

const descriptionOf = (schema: object): string =>
  Predicate.hasProperty(schema, "description") ? String(schema.description) : ""
