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

/**
 * The 503 of a message send is `provider_outcome_unknown`, because the provider may have been called. The exception is a
 * locked project, for which no provider is called.
 */
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

/** Returns the introduction of the reference: the rules that all operations share. Its links start with the URL `base`. */
const introduction = (base: string): string =>
  `
The project-scoped developer API: CRM, messaging, campaigns and integrations. Every path is resolved in the project of the
token; a record of another project answers exactly like one that does not exist. More: [the whole contract](${base}/contract) with the
webhooks (§10), [the typed client](${base}/client) (\`npm install effect@4.1.0\` and the URL of [its package](${base}/client.tgz)), [the document](${base}/openapi.json), and
[an index for programs](${base}/llms.txt), which also leads to the endpoint for agents.

## Credentials

Send \`Authorization: Bearer dk_…\` with each request. An operator of the service issues tokens. A token belongs to a project and
has scopes; each operation names the scope that it requires. The samples read the token from the environment: \`export TOKEN=dk_…\`.

## Problems

Every answer of 400 and above is \`application/problem+json\` (RFC 9457). \`code\` is for programs, \`detail\` for people, and
\`errors\` has every fault of path, query, header and body, by location: \`body/amountMinor\`, \`query/limit\`.
\`instance\` and the header \`x-request-id\` identify the request in the logs of the service. Each code has a schema below, with its
meaning and its remedy.

## Idempotency

Every mutation takes an \`idempotency-key\`. 8 to 160 characters of \`A-Za-z0-9._:-\`, a letter or a digit first, are valid for every
operation. The key belongs to the project, is kept for 7 days, and identifies one command. The same
command sent again gets its first answer, with \`idempotent-replayed: true\`, and has no second effect. So after a lost
connection, 429, 500 or 503 it is safe to send it again with the same key. A refused command stores nothing, and its key may be
used again. The same key with another request is \`idempotency_key_reused\`: after a change of the request, change its key.

## Versions

A record's \`version\` starts at 1 and grows with each change; it is the \`ETag\` of its answers. Where a command has an
\`expectedVersion\`, another version is \`version_conflict\` with \`currentVersion\`. Every operation with an \`ETag\` in its answer takes
it as \`If-Match\` too: if the record has another version, the answer is \`precondition_failed\`, and nothing is changed. The GET of a
record with \`If-None-Match\` is 304 while the version is the same.

## Pages

Lists are ordered by creation, newest first. Pipelines and installations are ordered by id. \`nextCursor\`, and \`Link: <…>; rel="next"\`, lead to the next page. A cursor
belongs to its list and filters; \`limit\` may change. Walking the pages never repeats or skips a record that existed at the
start.

## Rate limits

Each project has a bucket for reads, one for mutations and one for messages. \`RateLimit-Policy\` and \`RateLimit\`
(draft-ietf-httpapi-ratelimit-headers-11) show its size and what is left: \`r\` requests for the next \`t\` seconds.
\`Retry-After\` of a 429 is the time after which one more request succeeds. A refused request takes nothing from the bucket.

## Values

Members are camelCase; unknown ones are refused, and so are unknown or repeated query parameters. Times are RFC 3339 in UTC
with milliseconds, dates are \`YYYY-MM-DD\`, money is an integer in minor units with an ISO 4217 code. Lengths count Unicode
code points. Nothing is trimmed, and no text has U+0000 or an unpaired surrogate. A body has at most 256 KiB, that of a batch 1 MiB.

## Receiving events

Deliveries are signed by [Standard Webhooks](https://www.standardwebhooks.com) and arrive at least once: \`webhook-id\` is the
same for every attempt. Answer 2xx within 15 s. After 410 the webhook is disabled; after any other answer that is not 2xx, the delivery is retried for days.
\`replayDeliveries\` sends stored events again, with the same \`webhook-id\`. \`testWebhook\` sends a \`webhook.test.v1\` event, which is signed
like all others and has an empty \`data\`. Answer it with 2xx, and do nothing else. Operators can do both, too.
`.trim()
