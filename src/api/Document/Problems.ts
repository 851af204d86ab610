/** Problems in the OpenAPI document: their wire form, meaning and remedy. */
import { Predicate } from "effect"
import type * as OpenApi from "effect/http-api/OpenApi"
import { advice } from "./Advice.ts"

type Schemas = OpenApi.OpenAPISpec["components"]["schemas"]

export type ProblemSchemas = ReadonlyMap<string, { readonly title: string; readonly status: number }>

/** The descriptions of `code` and of the members of RFC 9457. */
const members: Readonly<Record<string, string>> = {
  type: "A URI that identifies the kind of problem: `urn:developer-api:problem:` and the code.",
  title: "What kind of problem it is: one fixed sentence for each code.",
  status: "The HTTP status of the answer.",
  detail: "What happened in this request, for people.",
  instance: "A URI that identifies the request: `urn:developer-api:request:` and its `x-request-id`.",
  code: "The kind of problem, for programs."
}

/** The members that every problem has on the wire, although a program may leave them out when it creates a problem. */
const required = ["type", "title", "status", "instance", "code"] as const

/** Returns the code of a problem from the name of its schema. The suffix `Encoded` marks the schema of the wire form. */
const codeOf = (name: string) => name.replace(/Encoded$/, "")

const literalOf = (properties: object, member: string): unknown => {
  const schema: unknown = Predicate.hasProperty(properties, member) ? properties[member] : undefined
  return Predicate.hasProperty(schema, "enum") && Array.isArray(schema.enum) ? schema.enum[0] : undefined
}

export const completeProblems = (schemas: Schemas): ProblemSchemas => {
  const problems = new Map<string, { readonly title: string; readonly status: number }>()
  for (const [name, schema] of Object.entries(schemas)) {
    const { properties, required: own } = { properties: {}, required: [], ...schema }
    const [title, status] = [literalOf(properties, "title"), literalOf(properties, "status")]
    if (!Predicate.isString(title) || !Predicate.isNumber(status)) continue
    const code = codeOf(name)
    problems.set(code, { title, status })
    for (const [member, property] of Object.entries(properties)) {
      const description = members[member]
      if (description !== undefined && Predicate.isObject(property)) Object.assign(property, { description })
    }
    Object.assign(schema, {
      description: `${title} ${advice[code] ?? ""}`.trim(),
      required: [...new Set([...required, ...own])]
    })
  }
  return problems
}

export const codesOf = ({ content }: OpenApi.OpenApiSpecResponse): ReadonlyArray<string> =>
  [...JSON.stringify(content).matchAll(/"#\/components\/schemas\/([a-z_]+)/g)].map(([, code = ""]) => code)

export const describeProblems = (problems: ProblemSchemas, response: OpenApi.OpenApiSpecResponse): string =>
  codesOf(response)
    .map((code) => `- \`${code}\`: ${problems.get(code)?.title}`)
    .join("\n")

export const renameToCodes = (document: string): string =>
  document.replace(/"((?:#\/components\/schemas\/)?[a-z_]+)Encoded"(?=[,:}\]])/g, '"$1"')
