/** Validation of real requests and answers against the OpenAPI document, by Ajv. */
import { assert } from "@effect/vitest"
import { Ajv2020 } from "ajv/dist/2020.js"
import formats from "ajv-formats"
import { OpenApi } from "effect/http-api"
import { Api } from "../../src/api/Api.ts"
import { completeDocument } from "../../src/api/document/Document.ts"
import type { Answer, Request } from "./ContractHttp.ts"

const document = OpenApi.fromApi(completeDocument(Api))

const ajv = new Ajv2020({ strict: false, allErrors: true })
formats.default(ajv)
// Endpoint URLs follow the URL standard, which accepts more than RFC 3986.
ajv.addFormat("uri", true)
ajv.addSchema(document, "document")

const templates = Object.keys(document.paths).map((template) => ({
  template,
  pattern: new RegExp(`^${template.replaceAll(".", "\\.").replace(/\{\w+\}/g, "[^/]+")}$`)
}))

const operationOf = (method: string, path: string) => {
  const known = templates.find(({ pattern }) => pattern.test(path.split("?")[0] ?? ""))
  if (known === undefined) return undefined
  const operations = Object.entries(document.paths[known.template] ?? {})
  const operation = operations.find(([name]) => name === method.toLowerCase())?.[1]
  return operation === undefined || !("responses" in operation)
    ? undefined
    : { operation, at: ["paths", known.template, method.toLowerCase()] }
}

/** The operations that answer 200 with the version of a record as `ETag`. */
export const versioned: ReadonlySet<string> = new Set(
  Object.values(document.paths).flatMap((path) =>
    Object.values(path).flatMap((operation) =>
      "responses" in operation && "etag" in (operation.responses[200]?.headers ?? {})
        ? [operation.operationId ?? ""]
        : []
    )
  )
)

const pointer = (path: ReadonlyArray<string>) =>
  path.map((step) => `/${encodeURIComponent(step.replaceAll("~", "~0").replaceAll("/", "~1"))}`).join("")

const assertValid = (path: ReadonlyArray<string>, value: unknown, what: string) => {
  const validate = ajv.getSchema(`document#${pointer(path)}`)
  if (validate === undefined) throw new Error(`The document has nothing at ${path.join(" ")}`)
  if (validate(value) !== true) assert.fail(`${what} is not as documented: ${ajv.errorsText(validate.errors)}`)
}

/** Asserts that an answer, and the request if it succeeded, match the OpenAPI document. Paths outside of it are ignored. */
export const assertDocumented = ({ json, method = "GET", path }: Request, answer: Answer): void => {
  const found = operationOf(method, path)
  if (found === undefined) return
  const { at, operation } = found
  const what = `${method} ${path} ${answer.status} ${answer.text}`
  const response = operation.responses[answer.status]
  if (response === undefined) return assert.fail(`Not documented: ${what}`)
  for (const [name, { required }] of Object.entries(response.headers ?? {})) {
    if (required === true) assert.property(answer.headers, name, what)
  }
  if (answer.status === 304) return
  const type = String(answer.headers["content-type"]).replace(/;.*/, "")
  assertValid([...at, "responses", String(answer.status), "content", type, "schema"], answer.json, what)
  if (answer.status < 300 && json !== undefined) {
    assertValid([...at, "requestBody", "content", "application/json", "schema"], json, `The request of ${what}`)
  }
}
