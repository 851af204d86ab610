/**
 * The tools of agents: one for each operation, derived from the HttpApi and its document. A model reads the schemas of all tools before
 * its first call, so each is shorter than the one of the OpenAPI document: the operation still refuses what the document forbids.
 */
import { Context, Effect, Predicate, Record } from "effect"
import { type HttpApiEndpoint, OpenApi } from "effect/http-api"
import { Access, Changing, Destructive } from "../../api/Access.ts"
import { Api, endpoints } from "../../api/Api.ts"
import { completeDocument, operationOf, withoutNull } from "../../api/document/Document.ts"
import type { Credential } from "../auth/Credentials.ts"
import { refusalOf } from "../path/Middleware.ts"

/** A tool as `tools/list` shows it, with the access that its operation requires. */
interface Tool {
  readonly access: Access["Service"]
  readonly shown: object
}

/** Maximum number of lists that are kept. There is one for each set of scopes and modules that tokens have. */
const maxLists = 50

/** Makes a function that returns the tools of a credential, as JSON. Its first call generates the OpenAPI document. */
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
  return endpoints().map(({ endpoint }) => toolOf(endpoint, operationOf(document, endpoint), document))
}

const toolOf = (
  { annotations, identifier: name, method }: HttpApiEndpoint.Top,
  operation: OpenApi.OpenAPISpecOperation,
  document: OpenApi.OpenAPISpec
): Tool => {
  const access = Context.getUnsafe(annotations, Access)
  const isDestructive = Context.get(annotations, Destructive)
  const isChanging = Context.get(annotations, Changing)
  const title = operation.summary ?? name
  const takesKey = operation.parameters.some(({ name }) => name === "idempotency-key")
  return {
    access,
    shown: {
      name,
      description: descriptionOf(operation.description ?? "", access, isDestructive),
      inputSchema: argumentsOf(operation, document),
      annotations: {
        title,
        readOnlyHint: access.policy === "read",
        destructiveHint: isDestructive || isChanging || method === "PATCH" || method === "PUT" || method === "DELETE",
        // The hint has a meaning only for what changes something. A repeat without a key has a second effect.
        ...(takesKey && { idempotentHint: true }),
        openWorldHint: access.policy === "messages"
      }
    }
  }
}

/** The cautions of tools whose effect no other call undoes, and of tools that send messages to people. */
const destructive = "Ask the user first: no call restores what it removes or ends. "
const sending = " After a timeout or 503 repeat it with the same key: a new key sends it again."

/** Maximum length of a description in characters, scope and cautions included. */
const maxLength = 240

/** Describes a tool: as many sentences of the operation's description as fit, then the scope and the cautions. */
const descriptionOf = (reference: string, { policy, scope }: Access["Service"], isDestructive: boolean): string => {
  const end = `${isDestructive ? destructive : ""}Scope: ${scope === null ? "none" : `\`${scope}\``}.${policy === "messages" ? sending : ""}`
  const [sentences = ""] = reference.split("\n\nScope:")
  let text = ""
  for (const sentence of sentences.match(/[^.]+(?:\.(?! )[^.]*)*(?:\.|$)/g) ?? []) {
    if (text.length + sentence.trim().length + end.length + 2 > maxLength) break
    text += `${sentence.trim()} `
  }
  return `${text}${end}`
}

/** The arguments that many tools have. The instructions of the server say more of them. */
const shared: Readonly<Record<string, object>> = {
  limit: { type: "integer", minimum: 1, maximum: 100, default: 50, description: "Records per page." },
  cursor: { type: "string", description: "`nextCursor` of the page before." },
  idempotencyKey: { type: "string", description: "A UUID, new for each command." }
}

/** Schemas that would repeat the body of another tool, by their names in the document. */
const alike: Readonly<Record<string, object>> = Object.fromEntries(
  ["Client", "Deal"].map((record) => [
    `Developer${record}BatchItem`,
    {
      type: "object",
      properties: { externalId: { type: "string" } },
      required: ["externalId"],
      description: `The members of the body of upsert${record}.`
    }
  ])
)

const argumentsOf = (
  { parameters, requestBody }: OpenApi.OpenAPISpecOperation,
  { components }: OpenApi.OpenAPISpec
) => {
  const properties: Record<string, object> = {}
  const required: Array<string> = []
  const add = (name: string, isRequired: boolean, schema: object) => {
    properties[name] = shared[name] ?? shortened(schema, components.schemas)
    if (isRequired) required.push(name)
  }
  for (const { description, in: place, name, required: isRequired, schema } of parameters) {
    if (place !== "header") add(name, isRequired, { ...schema, description })
    if (name === "idempotency-key") add("idempotencyKey", true, schema)
  }
  const body = Object.values(requestBody?.content ?? {})[0]?.schema
  if (body !== undefined) add("body", true, body)
  return { type: "object", properties, ...(required.length === 0 ? {} : { required }) }
}

type Members = Readonly<Record<string, unknown>>

/** Replaces each `$ref` by the schema that it names, because few language models resolve references, and shortens the schema. */
const shortened = (schema: unknown, schemas: Members): Members => {
  const walk = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(walk)
    if (!Predicate.isObject(value)) return value
    const { $ref: reference, ...rest } = value
    const members = Record.map(rest, (member, name) =>
      name === "properties" && Predicate.isObject(member) ? Record.map(member, walk) : walk(member)
    )
    const name = typeof reference === "string" ? reference.slice(reference.lastIndexOf("/") + 1) : undefined
    const named = name === undefined ? {} : (alike[name] ?? walk(schemas[name]))
    return short({ ...(Predicate.isObject(named) ? named : {}), ...members })
  }
  const whole = walk(schema)
  return Predicate.isObject(whole) ? whole : {}
}

/** An enumeration that is longer stays out: the description of such an argument names the standard that has the values. */
const maxEnumeration = 20

const short = ({ anyOf, description, ...members }: Members): Members => {
  const described = typeof description === "string" ? { description: withoutBounds(description) } : {}
  const {
    additionalProperties,
    enum: values,
    exclusiveMinimum,
    maxLength,
    maximum,
    minLength,
    pattern,
    ...others
  } = members
  const bounds = {
    // The instructions of the server have the usual length of a text.
    ...(minLength === 1 ? {} : given({ minLength })),
    ...(maxLength === 160 ? {} : given({ maxLength })),
    ...(additionalProperties === false ? {} : given({ additionalProperties })),
    ...(exclusiveMinimum === 0 ? { minimum: 1 } : given({ exclusiveMinimum })),
    ...(pattern === withoutNull ? {} : given({ pattern })),
    ...(maximum === Number.MAX_SAFE_INTEGER ? {} : given({ maximum })),
    ...(Array.isArray(values) && values.length > maxEnumeration ? {} : given({ enum: values }))
  }
  return { ...(Array.isArray(anyOf) ? oneOf(anyOf) : {}), ...others, ...bounds, ...described }
}

const given = (members: Members): Members => Record.filter(members, (member) => member !== undefined)

/** The bounds of texts and lists, and whether null is taken, are in their schemas. */
const withoutBounds = (description: string) =>
  description
    .replace(/(?:[:,;] at most 100(?: ids|, each) of|[:,]) (?:1 to |at most )?[\d,]+ characters(?=[.;])/g, "")
    .replace(/; null if (?:it is unknown|it has none|there is none|nobody is|none is expected)(?=\.)/g, "")

const oneOf = (variants: ReadonlyArray<Members>): Members => {
  const [value, empty] = variants
  if (variants.length === 2 && value !== undefined && empty?.["type"] === "null" && typeof value["type"] === "string") {
    const { description: _, enum: values, type, ...rest } = value
    return { type: [type, "null"], ...rest, ...(Array.isArray(values) ? { enum: [...values, null] } : {}) }
  }
  return variants.every(({ type }) => type === "object") ? merged(variants) : { anyOf: variants }
}

/** Merges the variants of a command. The description of the member that selects the variant tells which members each takes. */
const merged = (variants: ReadonlyArray<Members>): Members => {
  const properties: Record<string, unknown> = {}
  const selector: Array<unknown> = []
  const takes: Array<string> = []
  let selects = ""
  for (const variant of variants) {
    const members = Predicate.isObject(variant["properties"]) ? variant["properties"] : {}
    const required: ReadonlyArray<unknown> = Array.isArray(variant["required"]) ? variant["required"] : []
    const own: Array<string> = []
    for (const [name, schema] of Object.entries(members)) {
      const constant = Predicate.isObject(schema) && Array.isArray(schema["enum"]) ? schema["enum"] : []
      if (constant.length === 1) {
        selects = name
        selector.push(...constant)
      } else {
        properties[name] ??= schema
        own.push(required.includes(name) ? name : `${name}?`)
      }
    }
    takes.push(`\`${String(selector.at(-1))}\`${own.length === 0 ? "" : ` with ${own.join(", ")}`}`)
  }
  const description = `The command, with the members that it takes: ${takes.join("; ")}.`
  return {
    type: "object",
    properties: { [selects]: { type: "string", enum: selector, description }, ...properties },
    required: [selects]
  }
}
