/** The tools of agents: one for each operation, derived from the HttpApi and its document. */
import { Context, Effect, Predicate, Record } from "effect"
import * as HttpApi from "effect/http-api/HttpApi"
import type * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as OpenApi from "effect/http-api/OpenApi"
import { Access, Destructive, type Policy } from "../../api/Access.ts"
import { Api } from "../../api/Api.ts"
import { completeDocument } from "../../api/Document.ts"
import type { Credential } from "../../platform/requests/auth/Credentials.ts"
import { refusalOf } from "../../platform/requests/auth/Bearer.ts"

/** A tool as `tools/list` shows it, with the access that its operation requires. */
interface Tool {
  readonly access: Access["Service"]
  readonly shown: object
}

/** Maximum number of lists that are kept. There is one for each set of scopes and modules that tokens have. */
const maxLists = 50

/**
 * Makes a function that returns the tools of a credential, as JSON. Its first call generates the OpenAPI document, from which the
 * tools derive.
 */
export const makeTools: Effect.Effect<(credential: Credential) => Effect.Effect<string>> = Effect.map(
  Effect.cached(Effect.sync(() => all())),
  (tools) => {
    const lists = new Map<string, string>()
    const listOf = (tools: ReadonlyArray<Tool>, credential: Credential): string => {
      const permitted = tools.filter(({ access }) => refusalOf(credential, access) === undefined)
      const key = permitted.map(({ access }) => access.scope).join()
      const known = lists.get(key)
      if (known !== undefined) return known
      const list = JSON.stringify(permitted.map(({ shown }) => shown))
      if (lists.size < maxLists) lists.set(key, list)
      return list
    }
    return (credential) => Effect.map(tools, (tools) => listOf(tools, credential))
  }
)

const all = (): ReadonlyArray<Tool> => {
  const document = OpenApi.fromApi(completeDocument(Api))
  const tools: Array<Tool> = []
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint }) => {
      const path = document.paths[endpoint.path.replace(/:([A-Za-z]+)/g, "{$1}")]
      const operation = Object.entries(path ?? {}).find(([method]) => method === endpoint.method.toLowerCase())?.[1]
      if (operation === undefined || !("responses" in operation)) {
        throw new Error(`The document lacks the operation ${endpoint.identifier}`)
      }
      tools.push(toolOf(endpoint, operation, document))
    }
  })
  return tools
}

const toolOf = (
  { annotations, identifier: name, method }: HttpApiEndpoint.Top,
  operation: OpenApi.OpenAPISpecOperation,
  document: OpenApi.OpenAPISpec
): Tool => {
  const access = Context.getUnsafe(annotations, Access)
  const isDestructive = Context.get(annotations, Destructive)
  const title = operation.summary ?? name
  return {
    access,
    shown: {
      name,
      title,
      description: descriptionOf(operation.description ?? "", access, isDestructive),
      inputSchema: argumentsOf(operation, document),
      annotations: {
        title,
        readOnlyHint: access.policy === "read",
        destructiveHint: isDestructive || method === "PATCH" || method === "PUT" || method === "DELETE",
        idempotentHint: true,
        openWorldHint: access.policy === "messages"
      }
    }
  }
}

/** The last sentences of a tool's description, by its rate limit policy. */
const cautions: Readonly<Record<Policy, string>> = {
  read: "Costs 1 of the limit `read`.",
  write: "Costs 1 of the limit `write`.",
  messages:
    "Costs 1 of the limit `messages`. After a timeout or 503 repeat it with the same key: a new key sends it again."
}

const destructive = "Ask the user first: no call restores what it removes or ends."

/** Maximum length of a description in characters, scope and cautions included. */
const maxLength = 300

/** Describes a tool: as many sentences of the operation's description as fit, then the scope and the cautions. */
const descriptionOf = (reference: string, { policy, scope }: Access["Service"], isDestructive: boolean): string => {
  const end = `${isDestructive ? `${destructive} ` : ""}Scope: \`${scope}\`. ${cautions[policy]}`
  const [sentences = ""] = reference.split("\n\nScope:")
  let text = ""
  for (const sentence of sentences.match(/[^.]+(?:\.(?! )[^.]*)*(?:\.|$)/g) ?? []) {
    if (text.length + sentence.trim().length + end.length + 2 > maxLength) break
    text += `${sentence.trim()} `
  }
  return `${text}${end}`
}

const keyDescription = "A new key for each new command; the same key to repeat a call."

/** The schema of the arguments: parameters by their names, `idempotencyKey`, and the body's members under `body`. */
const argumentsOf = (
  { parameters, requestBody }: OpenApi.OpenAPISpecOperation,
  { components }: OpenApi.OpenAPISpec
) => {
  const properties: Record<string, object> = {}
  const required: Array<string> = []
  const add = (name: string, isRequired: boolean, schema: object) => {
    properties[name] = schema
    if (isRequired) required.push(name)
  }
  for (const parameter of parameters) {
    const { description = "", in: place, name, schema } = parameter
    if (place !== "header") add(name, parameter.required, short({ ...schema, description }))
    if (name === "idempotency-key") add("idempotencyKey", true, { ...schema, description: keyDescription })
  }
  const body = Object.values(requestBody?.content ?? {})[0]?.schema
  if (body !== undefined) add("body", true, { ...inlined(body, components.schemas) })
  return { type: "object", properties, ...(required.length === 0 ? {} : { required }), additionalProperties: false }
}

/** Maximum number of values that a schema lists. The description of a longer list names its standard. */
const maxValues = 20

/**
 * Shortens a schema, as all tools have at most 12,000 tokens: a type that allows null has two types instead of two schemas, and a
 * description does not repeat the bounds of its schema.
 */
const short = (schema: Readonly<Record<string, unknown>>): object => {
  const { anyOf, ...own } = schema
  const [one, other, ...more]: ReadonlyArray<unknown> = Array.isArray(anyOf) ? anyOf : []
  const isNullable = Predicate.isObject(other) && other["type"] === "null" && more.length === 0
  if (!isNullable || !Predicate.isObject(one) || typeof one["type"] !== "string") return withoutBounds(schema)
  const { enum: values, ...rest } = one
  const listed = Array.isArray(values) && values.length <= maxValues ? { enum: [...values, null] } : {}
  return withoutBounds({ ...rest, ...own, type: [one["type"], "null"], ...listed })
}

const withoutBounds = (schema: Readonly<Record<string, unknown>>): object =>
  typeof schema["description"] === "string" && schema["maxLength"] !== undefined
    ? { ...schema, description: schema["description"].replace(/:? (?:an id of )?1 to \d+ characters/, "") }
    : schema

/** Replaces each `$ref` in a schema with the schema that it names, because few language models resolve references. */
const inlined = (schema: unknown, schemas: Readonly<Record<string, unknown>>): object => {
  const walk = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(walk)
    if (!Predicate.isObject(value)) return value
    const { $ref: reference, ...rest } = value
    const members = Record.map(rest, walk)
    if (typeof reference !== "string") return short(members)
    const named = walk(schemas[reference.slice(reference.lastIndexOf("/") + 1)])
    return Predicate.isObject(named) ? { ...named, ...members } : members
  }
  const whole = walk(schema)
  return Predicate.isObject(whole) ? whole : {}
}
