/** Additions to the generated OpenAPI document: scopes, shared headers, examples, names of problems. */
import { Context, Predicate, Record } from "effect"
import { HttpApi, type HttpApiEndpoint, type HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, Examples, exemplify } from "../Access.ts"
import { endpoints } from "../Api.ts"
import { DeveloperBearer, MaxBody } from "../Requests.ts"
import { linksOf } from "./Components.ts"
import { completeParameters, descriptionOf, flat } from "./Parameters.ts"
import { completeProblems, describeProblems, exampleProblems, renameToCodes } from "./Problems.ts"
import { webhooks, webhookSchemas } from "../integrations/WebhooksDocument.ts"

type Headers = Record<string, OpenApi.OpenAPISpecHeader>

const header = (description: string, required = true): OpenApi.OpenAPISpecHeader => ({
  description,
  required,
  schema: { type: "string" }
})

const onEveryAnswer: Headers = {
  "x-request-id": header("The id of the request: its own `x-request-id` if that is well formed, otherwise a new one.")
}

const limits = (required: boolean): Headers => ({
  "ratelimit-policy": header('The bucket: `"read";q=1200;w=60` is 1200 requests per 60 s.', required),
  ratelimit: header('The state of the bucket: `"read";r=1199;t=60` is 1199 requests left for the next 60 s.', required)
})

const behindTheLimiter = limits(true)

/** The headers of 429, and of statuses that can be answered before the rate limiter runs. */
const byStatus: Readonly<Record<string, Headers>> = {
  400: limits(false),
  304: { ...behindTheLimiter, etag: header("The version of the record, in double quotes.") },
  401: { "www-authenticate": header("The Bearer challenge (RFC 6750).") },
  403: { "www-authenticate": header("The Bearer challenge (RFC 6750) of `scope_missing`.", false) },
  408: {},
  429: { ...behindTheLimiter, "retry-after": header("Whole seconds after which one more request succeeds.") },
  431: {},
  500: {},
  503: { "retry-after": header("Whole seconds after which to try again.") }
}

/** Narrows the argument of a transformation, whose declared type is `object`. */
export const isSpec = (document: object): document is OpenApi.OpenAPISpec =>
  "paths" in document && "components" in document

export const completeDocument = <Id extends string, Groups extends HttpApiGroup.Constraint>(
  api: HttpApi.HttpApi<Id, Groups>
): HttpApi.HttpApi<Id, Groups> =>
  api.annotate(OpenApi.Transform, (document) => {
    if (!isSpec(document)) return document
    completeProblems(document.components.schemas)
    for (const { endpoint } of endpoints()) complete(operationOf(document, endpoint), endpoint)
    const base = document.servers?.[0]?.url.replace(/\/$/, "") ?? ""
    Object.assign(document.info, { description: introduction(base), license: { name: "MIT", identifier: "MIT" } })
    Object.assign(document, { webhooks })
    Object.assign(document.components, { securitySchemes: { DeveloperBearer } })
    document.components.schemas = { ...webhookSchemas, ...document.components.schemas }
    return JSON.parse(renameToCodes(JSON.stringify(document)), (_, value) =>
      Predicate.isObject(value) ? bounded(flat(value)) : value
    )
  })

export const operationOf = ({ paths }: OpenApi.OpenAPISpec, { identifier, method, path }: HttpApiEndpoint.Top) => {
  const operations = Object.entries(paths[path.replace(/:([A-Za-z]+)/g, "{$1}")] ?? {})
  const operation = operations.find(([name]) => name === method.toLowerCase())?.[1]
  if (operation === undefined || !("responses" in operation)) throw new Error(`${identifier} is not in the document`)
  return operation
}

/** The pattern of a text without one of its own: the service refuses U+0000 in every text. */
export const withoutNull = "^[^\\x00]*$"

const bounded = (schema: object): object =>
  "maxLength" in schema && !("pattern" in schema) ? { ...schema, pattern: withoutNull } : schema

const complete = (operation: OpenApi.OpenAPISpecOperation, { annotations, identifier: name }: HttpApiEndpoint.Top) => {
  const access = Context.getUnsafe(annotations, Access)
  const limits = Context.get(annotations, MaxBody)
  operation.operationId = name
  operation.security = [{ DeveloperBearer: [] }]
  operation.description =
    `${operation.description ?? ""}\n\nScope: ${access.scope === null ? "none" : `\`${access.scope}\``}.`.trim()

  completeParameters(operation)

  if (access.policy === "messages") operation.responses[503] = sendUnavailable
  const { answer, request, requests } = Context.getUnsafe(annotations, Examples)
  exemplify(operation.requestBody?.content, requests ?? { [name]: request })
  for (const [status, response] of Object.entries(operation.responses)) {
    const own = Record.map(response.headers ?? {}, (header) => ({
      description: descriptionOf(header.schema),
      ...header
    }))
    response.headers = { ...onEveryAnswer, ...(byStatus[status] ?? behindTheLimiter), ...own }
    if (Number(status) < 300) {
      exemplify(response.content, { [name]: answer })
      response.description = "Success."
      Object.assign(response, linksOf(name))
    } else if (Number(status) < 400) {
      response.description = "The record has a version that `if-none-match` names: its `etag`, without a body."
    } else {
      response.description = describeProblems(response)
      exemplify(response.content, exampleProblems(response, access, limits, operation))
    }
  }
}

/** The 503 of a message send: the provider may have been called, unless the project is locked. */
const sendUnavailable = {
  description:
    "`provider_outcome_unknown`: it is unknown whether the provider accepted the message. `service_unavailable`: a project file is being applied or the project is being moved, and no provider was called.",
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

/** Returns the introduction of the reference: the rules of the contract that each request needs. Its links start with the URL `base`. */
const introduction = (base: string): string =>
  `
The project-scoped developer API: CRM, messaging, campaigns and integrations. Every path is resolved in the project of the
token; a record of another project answers exactly like one that does not exist. [The whole contract](${base}/contract) has the rules of
all operations, and the webhooks (§10). More: [the typed client](${base}/client) (\`npm install effect@4.1.0\` and the URL of
[its package](${base}/client.tgz)), [the document](${base}/openapi.json), and [an index for programs](${base}/llms.txt), which also leads to the endpoint for agents.

**Credentials.** Send \`Authorization: Bearer dk_…\` with each request. An operator of the service issues tokens. A token belongs to a
project and has scopes; each operation names the scope that it requires. The samples read it from the environment: \`export TOKEN=dk_…\`.

**Problems.** Every answer of 400 and above is \`application/problem+json\` (RFC 9457). \`code\` is for programs, \`detail\` for people, and
\`errors\` has every fault by location, such as \`body/amountMinor\`. Each code has a schema below, with its meaning and its remedy.

**Idempotency.** Every mutation takes an \`idempotency-key\`, which names one command: after a lost connection, 429, 500 or 503 it is safe
to send it again with the same key. 8 to 160 characters of \`A-Za-z0-9._:-\`, a letter or a digit first, are valid for every operation.

**Versions.** A record's \`version\` grows with each change, and is the \`ETag\` of its answers. With it as \`If-Match\`, a record that has
another version is not changed: \`precondition_failed\`. A GET with \`If-None-Match\` is 304 while the version is the same.

**Pages.** \`nextCursor\`, and \`Link: <…>; rel="next"\`, lead to the next page of a list with the same filters.

**Rate limits.** \`RateLimit\` shows what is left of the bucket: \`r\` requests for the next \`t\` seconds. After 429 wait \`Retry-After\` seconds.

**Events** arrive at least once, signed by [Standard Webhooks](https://www.standardwebhooks.com). Answer 2xx within 15 s; any other answer
is retried for days, but 410 disables the webhook.
`.trim()
