/** The OpenAPI document: examples that match their schemas, references, and the members of problems. */
import { assert, describe, it } from "@effect/vitest"
import { Context, Predicate, Schema } from "effect"
import { HttpApi, type HttpApiEndpoint, OpenApi } from "effect/http-api"
import { Api } from "../../src/api/Api.ts"
import { documented } from "../../src/api/Document.ts"
import { Examples } from "../../src/api/Examples.ts"
import { eventBody, eventTypes } from "../../src/api/integrations/Events.ts"

const document = OpenApi.fromApi(documented(Api))

const endpoints: Array<readonly [name: string, endpoint: HttpApiEndpoint.Top]> = []
HttpApi.reflect(Api, {
  onGroup: () => {},
  onEndpoint: ({ endpoint }) => endpoints.push([endpoint.identifier, endpoint])
})

const isSelfContained = (schema: unknown): schema is Schema.Codec<unknown, unknown> => Schema.isSchema(schema)

/** Asserts that a schema decodes a value without excess members. */
const assertDecodes = (schema: unknown, value: unknown) => {
  if (!isSelfContained(schema)) throw new Error("A schema is missing")
  Schema.decodeUnknownSync(schema, { onExcessProperty: "error", errors: "all" })(value)
}

const Body = Schema.Struct({ content: Schema.Record(Schema.String, Schema.Struct({ example: Schema.Unknown })) })
const Operation = Schema.Struct({
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
          parameters: Schema.Array(Schema.Struct({ name: Schema.String, in: Schema.Literal("header") }))
        })
      })
    )
  })
)

const exampleOf = (body: unknown) =>
  Object.values(Schema.decodeUnknownSync(Body)(body).content).map(({ example }) => example)

describe("the OpenAPI document", () => {
  it.for(endpoints)("%s has an example of its answer, and of its request if any", ([, endpoint]) => {
    const { answer, request } = Context.getUnsafe(endpoint.annotations, Examples)
    const operation = operationOf(endpoint)
    const [success] = endpoint.success
    assertDecodes(Predicate.hasProperty(success, "schema") ? success.schema : undefined, answer)
    const status = Object.keys(operation?.responses ?? {}).find((status) => status.startsWith("2"))
    assert.deepStrictEqual(exampleOf(operation?.responses[status ?? "200"]), [answer])

    const payloads = [...endpoint.payload.values()].flatMap(({ schemas }) => schemas)
    assert.strictEqual(operation?.requestBody === undefined, payloads.length === 0)
    if (payloads.length === 0) return
    assertDecodes(Schema.Union(payloads), request)
    assert.deepStrictEqual(exampleOf(operation?.requestBody), [request])
  })

  it.for(eventTypes)("%s is described as a webhook with its headers and an example of its body", (type) => {
    const { webhooks } = decodeWebhooks(document)
    assert.sameMembers(Object.keys(webhooks), [...eventTypes])
    const operation = webhooks[type]?.post
    assertDecodes(eventBody(type), exampleOf(operation?.requestBody)[0])
    assert.sameMembers(operation?.parameters.map(({ name }) => name) ?? [], [
      "webhook-id",
      "webhook-timestamp",
      "webhook-signature",
      "traceparent"
    ])
  })

  it("defines every component that it refers to", () => {
    const references = new Set(JSON.stringify(document).match(/(?<="\$ref":"#\/components\/schemas\/)[^"]+/g))
    assert.isAbove(references.size, 20)
    assert.includeMembers(Object.keys(document.components.schemas), [...references])
  })

  it("describes every member that each problem has", () => {
    const problems = Object.entries(document.components.schemas).filter(([, schema]) =>
      JSON.stringify(schema).includes("urn:developer-api:problem:")
    )
    assert.isAbove(problems.length, 20)
    for (const [code, schema] of problems) {
      assert.includeMembers(
        Schema.decodeUnknownSync(Schema.Struct({ required: Schema.Array(Schema.String) }))(schema).required.slice(),
        ["type", "title", "status", "instance", "code"],
        code
      )
    }
  })
})
