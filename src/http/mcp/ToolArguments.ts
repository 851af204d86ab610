/**
 * The schema of a tool's arguments, derived from the parameters and the body of its operation. A model reads the schemas of all
 * tools before its first call, so each is shorter than the one of the OpenAPI document: the operation still refuses what the
 * document forbids.
 */
import { Predicate, Record } from "effect"
import type * as OpenApi from "effect/http-api/OpenApi"

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

/** Parameters by their names, `idempotencyKey`, and the body's members under `body`. */
export const argumentsOf = (
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
  const { additionalProperties, enum: values, exclusiveMinimum, maxLength, maximum, minLength, ...others } = members
  const bounds = {
    // The instructions of the server have the usual length of a text.
    ...(minLength === 1 ? {} : given({ minLength })),
    ...(maxLength === 160 ? {} : given({ maxLength })),
    ...(additionalProperties === false ? {} : given({ additionalProperties })),
    ...(exclusiveMinimum === 0 ? { minimum: 1 } : given({ exclusiveMinimum })),
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

/**
 * Merges the variants of a command into one object, as most members occur in several. The description of the member that selects
 * the variant tells which members each variant takes.
 */
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
