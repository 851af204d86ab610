/** The OpenAPI document: examples that match their schemas, references, and the members of problems. */
import { assert, describe, it } from "../support/Vitest.ts"
import { Ajv2020 } from "ajv/dist/2020.js"
import formats from "ajv-formats"
import { Predicate, Record, Schema } from "effect"
import { HttpApi, type HttpApiEndpoint, OpenApi } from "effect/http-api"
import { Api } from "../../src/api/Api.ts"
import { completeDocument } from "../../src/api/document/Document.ts"
import { events, eventTypes } from "../../src/api/integrations/Events.ts"
import type { Sample } from "../contract/Sample.ts"
import { samples } from "../contract/Samples.ts"
import { versioned } from "../support/Documented.ts"
import { startServer } from "../support/TestServer.ts"

const document = OpenApi.fromApi(completeDocument(Api))

const endpoints: Array<readonly [name: string, endpoint: HttpApiEndpoint.Top]> = []
HttpApi.reflect(Api, {
  onGroup: () => {},
  onEndpoint: ({ endpoint }) => endpoints.push([endpoint.identifier, endpoint])
})

const ajv = new Ajv2020({ strict: false, allErrors: true })
formats.default(ajv)
ajv.addSchema(document, "document")

/** Asserts that a value is valid by a schema of the document. */
const assertValid = (schema: object, value: unknown, what: string) => {
  const local: object = JSON.parse(JSON.stringify(schema).replaceAll('"#/', '"document#/'))
  assert.isTrue(ajv.validate(local, value), `${what}: ${ajv.errorsText()}`)
}

const Examples = Schema.Record(Schema.String, Schema.Struct({ value: Schema.Unknown }))
const Media = Schema.Struct({
  examples: Schema.optionalKey(Examples),
  schema: Schema.Record(Schema.String, Schema.Unknown)
})
const decodeMedia = Schema.decodeUnknownSync(Media)
const Body = Schema.Struct({
  content: Schema.Record(Schema.String, Schema.Struct({ ...Media.fields, examples: Examples }))
})
const Parameter = Schema.Struct({
  name: Schema.String,
  in: Schema.String,
  required: Schema.Boolean,
  schema: Schema.Record(Schema.String, Schema.Unknown),
  example: Schema.optionalKey(Schema.Unknown)
})
const Operation = Schema.Struct({
  operationId: Schema.String,
  description: Schema.String,
  security: Schema.Array(Schema.Unknown),
  parameters: Schema.Array(Parameter),
  requestBody: Schema.optionalKey(Body),
  responses: Schema.Record(Schema.String, Schema.Unknown)
})
const decodeOperations = Schema.decodeUnknownSync(Schema.Record(Schema.String, Operation))

/** Returns the document's operation for an endpoint. */
const operationOf = ({ method, path }: HttpApiEndpoint.Top) =>
  decodeOperations(document.paths[path.replace(/:(\w+)/g, "{$1}")])[method.toLowerCase()]

const decodeWebhooks = Schema.decodeUnknownSync(
  Schema.Struct({
    webhooks: Schema.Record(
      Schema.String,
      Schema.Struct({
        post: Schema.Struct({
          requestBody: Body,
          description: Schema.String,
          parameters: Schema.Array(Schema.Struct({ name: Schema.String, in: Schema.Literal("header") }))
        })
      })
    )
  })
)

/** Returns the examples of a body, by name. */
const examplesOf = (body: unknown) =>
  Object.values(Schema.decodeUnknownSync(Body)(body).content).flatMap(({ examples }) =>
    Object.entries(examples).map(([name, { value }]): [string, unknown] => [name, value])
  )

/** The problem codes that every operation has. */
const common =
  "validation_failed credential_missing credential_invalid scope_missing module_unavailable entitlement_unavailable " +
  "membership_unavailable rate_limit_exceeded internal service_unavailable request_timeout headers_too_large"

/** Returns the problem codes of an operation in contract §2 to §7. */
const codesOf = (
  isConditional: boolean,
  { body, key, query = {}, receipt, references = [], refusals = [] }: Sample
) => [
  ...common.split(" "),
  // The limiter never refuses a send by a 503 (contract §4).
  ...(receipt === "message" ? [] : ["rate_limiter_unavailable"]),
  ...(body === undefined ? [] : ["malformed_json", "body_too_large", "unsupported_media_type"]),
  ...(key === undefined ? [] : ["idempotency_key_reused"]),
  ...("cursor" in query ? ["cursor_invalid"] : []),
  ...(isConditional ? ["precondition_failed"] : []),
  ...references.map(({ code }) => code),
  ...refusals
]

const Named = Schema.Record(Schema.String, Schema.Record(Schema.String, Schema.Unknown))
type Named = typeof Named.Type
const decodeServed = Schema.decodeUnknownSync(
  Schema.StructWithRest(
    Schema.Struct({
      components: Schema.StructWithRest(
        Schema.Struct({ examples: Named, headers: Named, parameters: Named, responses: Named }),
        [Schema.Record(Schema.String, Schema.Unknown)]
      )
    }),
    [Schema.Record(Schema.String, Schema.Unknown)]
  )
)

const decodeLinks = Schema.decodeUnknownSync(
  Schema.Record(
    Schema.String,
    Schema.Struct({ operationId: Schema.String, parameters: Schema.Record(Schema.String, Schema.String) })
  )
)

const headersOf = (response: unknown) =>
  Predicate.hasProperty(response, "headers") ? Object.keys(Object(response.headers)) : []

describe("the OpenAPI document", () => {
  it.for(endpoints)("%s has its scope, parameters, headers and problem codes", ([name, endpoint]) => {
    const sample = samples[name] ?? assert.fail(name)
    const { key, params = {}, query = {}, receipt, scope, status } = sample
    const { description, parameters, responses, security } = operationOf(endpoint) ?? assert.fail(name)
    assert.include(description, scope ?? "Scope: none.")
    const isConditional = versioned.has(name)
    assert.deepStrictEqual(security, [{ DeveloperBearer: [] }])
    assert.sameMembers(
      parameters.map((parameter) => `${parameter.in} ${parameter.name}`),
      [
        ...Object.keys(params).map((param) => `path ${param}`),
        ...Object.keys(query).map((param) => `query ${param}`),
        ...(key === undefined ? [] : ["header idempotency-key"]),
        ...(isConditional ? ["header if-match"] : []),
        // Reads, and upserts that may only create.
        ...((isConditional && key === undefined) || "externalId" in params ? ["header if-none-match"] : []),
        "header x-request-id"
      ]
    )
    const headers = headersOf(responses[status])
    assert.includeMembers(headers, ["x-request-id", "ratelimit", "ratelimit-policy"])
    if ("cursor" in query) assert.include(headers, "link")
    const isVersionless = receipt === "unversioned" || receipt === "message" || receipt === "batch"
    if (isVersionless) assert.notInclude(headers, "etag")
    if (key !== undefined) assert.includeMembers(headers, ["idempotent-replayed", ...(isVersionless ? [] : ["etag"])])
    for (const refused of ["401", "403"]) assert.include(headersOf(responses[refused]), "www-authenticate")
    for (const busy of ["429", "503"]) assert.include(headersOf(responses[busy]), "retry-after")
    const codes = Object.entries(responses).flatMap(([answered, response]) =>
      Number(answered) < 400
        ? []
        : [...JSON.stringify(response).matchAll(/"#\/components\/schemas\/([a-z_]+)"/g)].map(([, code]) => code)
    )
    assert.sameMembers(codes, [...new Set(codesOf(isConditional, sample))])
  })

  it.for(eventTypes)("%s is described as a webhook with its headers and an example of its body", (type) => {
    const { webhooks } = decodeWebhooks(document)
    assert.sameMembers(Object.keys(webhooks), [...eventTypes])
    const operation = webhooks[type]?.post
    assert.deepStrictEqual(
      examplesOf(operation?.requestBody).map(([name]) => name),
      [type]
    )
    assert.sameMembers(operation?.parameters.map(({ name }) => name) ?? [], [
      "webhook-id",
      "webhook-timestamp",
      "webhook-signature",
      "traceparent"
    ])
  })

  it("tells receivers to compare versions of those records in events that have one", () => {
    for (const [type, { post }] of Object.entries(decodeWebhooks(document).webhooks)) {
      const [[, example] = assert.fail(type)] = examplesOf(post.requestBody)
      const { data } = Schema.decodeUnknownSync(Schema.Struct({ data: Schema.Record(Schema.String, Schema.Unknown) }))(
        example
      )
      const named = /`data\.(\w+)\.version`/.exec(post.description)?.[1]
      const records = Object.keys(data).filter((record) => record !== "previous" && "version" in Object(data[record]))
      assert.deepStrictEqual(named === undefined ? [] : [named], records, type)
    }
  })

  it.for(["crm.client.created.v1", "crm.client.updated.v1"] as const)(
    "%s accepts the body of an event that is sent after its client was erased, and none without the ids",
    (type) => {
      const [media] = Object.values(decodeWebhooks(document).webhooks[type]?.post.requestBody.content ?? {})
      const { schema } = media ?? assert.fail(type)
      const [[, example] = assert.fail(type)] = Object.entries(media?.examples ?? {})
      const { id, ...others } = events[type].example.client
      const withClient = (client: object) => ({ ...Object(example.value), data: { client } })
      assertValid(schema, withClient({ id, externalId: null }), "erased")
      const local: object = JSON.parse(JSON.stringify(schema).replaceAll('"#/', '"document#/'))
      assert.isFalse(ajv.validate(local, withClient({ id })))
      assert.isFalse(ajv.validate(local, withClient(others)))
    }
  )

  it("names each operation as the contract does and its security scheme as viewers do", () => {
    const operations = endpoints.map(([name, endpoint]) => [operationOf(endpoint)?.operationId, name])
    for (const [operationId, name] of operations) assert.strictEqual(operationId, name)
    assert.strictEqual(new Set(operations.map(([operationId]) => operationId)).size, endpoints.length)
    assert.deepInclude(document.components.securitySchemes["DeveloperBearer"], { type: "http", scheme: "bearer" })
  })

  it.live("is what the service serves, with its URL and what operations share as components", function* () {
    const { send, url } = yield* startServer()
    const { json, text } = yield* send({ path: "/openapi.json" })
    const { components, ...served } = decodeServed(json)
    const { examples, headers, parameters, responses, ...others } = components
    const shared: Readonly<Record<string, Named>> = { examples, headers, parameters, responses }
    const resolved = (value: unknown): unknown => {
      if (Array.isArray(value)) return value.map(resolved)
      if (!Predicate.isObject(value)) return value
      const [, kind = "", name = ""] = /^#\/components\/(\w+)\/(.+)$/.exec(String(value["$ref"])) ?? []
      return kind in shared ? resolved(shared[kind]?.[name]) : Record.map(value, resolved)
    }
    const written = OpenApi.fromApi(completeDocument(Api.annotate(OpenApi.Servers, [{ url }])))
    assert.deepStrictEqual(resolved({ ...served, components: others }), JSON.parse(JSON.stringify(written)))
    const bytes = Buffer.byteLength(text)
    console.log(`openapi.json: ${bytes} bytes, ${endpoints.length} operations`)
    assert.isAtMost(bytes / endpoints.length, 10_500)
  })

  it("leads from an id in an answer to every operation that takes one, by all of their parameters in the path", () => {
    const answers = endpoints.flatMap(([name, endpoint]) =>
      Object.values(operationOf(endpoint)?.responses ?? {}).flatMap((response) =>
        Predicate.hasProperty(response, "links")
          ? Object.values(decodeLinks(response.links)).map((link) => ({ name, ...link }))
          : []
      )
    )
    const reached = new Set(answers.map(({ operationId }) => operationId))
    for (const [name, endpoint] of endpoints) {
      const ids = operationOf(endpoint)?.parameters.filter((parameter) => parameter.in === "path") ?? []
      // The caller chooses an external id.
      if (ids.some((parameter) => parameter.name !== "externalId")) assert.isTrue(reached.has(name), name)
    }
    for (const { name, operationId, parameters } of answers) {
      const [, target] = endpoints.find(([known]) => known === operationId) ?? assert.fail(`${name} ${operationId}`)
      const inPath = operationOf(target)?.parameters.filter((parameter) => parameter.in === "path") ?? []
      assert.sameMembers(
        Object.keys(parameters),
        inPath.map((parameter) => parameter.name),
        `${name} ${operationId}`
      )
    }
  })

  it("has valid examples in every body of a request, an answer, a problem and a webhook", () => {
    const missing: Array<string> = []
    let count = 0
    const visit = (value: unknown, path: ReadonlyArray<string>) => {
      if (!Predicate.isObject(value)) return
      for (const [name, member] of Object.entries(value)) {
        const at = [...path, name]
        if (path.at(-1) === "content") {
          const { examples = {}, schema } = decodeMedia(member)
          if (Object.keys(examples).length === 0) missing.push(at.join(" "))
          for (const { value } of Object.values(examples)) assertValid(schema, value, at.join(" "))
          count += Object.keys(examples).length
        } else visit(member, at)
      }
    }
    visit({ paths: document.paths, ...decodeWebhooks(document) }, [])
    assert.deepStrictEqual(missing, [])
    assert.isAbove(count, 400)
  })

  it("describes every property, parameter and header in a full sentence", () => {
    const missing: Array<string> = []
    let count = 0
    const visit = (value: unknown, path: ReadonlyArray<string>) => {
      if (!Predicate.isObject(value)) return
      const isNamed = path.at(-1) === "properties" || (path.at(-1) === "headers" && path.at(-2) !== "properties")
      for (const [name, member] of Object.entries(value)) {
        const isDescribed = isNamed || (path.at(-1) === "parameters" && Predicate.hasProperty(member, "in"))
        if (isDescribed) {
          count++
          const description = Predicate.hasProperty(member, "description") ? String(member.description) : ""
          if (!/^[A-Z].*[^.]\.$/s.test(description)) missing.push([...path, name].join("/"))
        }
        if (name !== "examples") visit(member, [...path, name])
      }
    }
    visit(document, [])
    assert.deepStrictEqual(missing, [])
    assert.isAbove(count, 500)
  })

  it.for(endpoints)("%s has a valid example of each problem and of each parameter that needs one", ([, endpoint]) => {
    const { parameters, responses } = operationOf(endpoint) ?? { parameters: [], responses: {} }
    for (const { example, in: place, name, required, schema } of parameters) {
      // A key that all readers find here would be the key of all their requests.
      if (name === "idempotency-key") assert.isUndefined(example)
      else if (example !== undefined) assertValid(schema, example, name)
      else assert.isFalse(required, `${place}/${name}`)
    }
    const problems = Object.entries(responses).filter(([status]) => Number(status) >= 400)
    assert.isAbove(problems.length, 4)
    for (const [status, response] of problems) {
      const codes = [...JSON.stringify(response).matchAll(/"#\/components\/schemas\/([a-z_]+)"/g)].map(
        ([, code]) => code
      )
      const examples = examplesOf(response)
      assert.sameMembers(
        examples.map(([name]) => name),
        codes
      )
      for (const [code, example] of examples) {
        assertValid({ $ref: `#/components/schemas/${code}` }, example, `${status} ${code}`)
      }
    }
  })
})
