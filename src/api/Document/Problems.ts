/** Problems in the OpenAPI document: their wire form, meaning and remedy. */
import { Predicate } from "effect"
import type * as OpenApi from "effect/http-api/OpenApi"
import { advice } from "./Advice.ts"

type Schemas = OpenApi.OpenAPISpec["components"]["schemas"]

/** Members that every problem has on the wire, although they are optional when a program makes one. */
const members = ["type", "title", "status", "instance", "code"]

/** Problems are named by their code. The suffix distinguishes the wire form from the decoded form. */
const codeOf = (name: string) => name.replace(/Encoded$/, "")

const titleOf = (properties: object): string | undefined => {
  const title: unknown = Predicate.hasProperty(properties, "title") ? properties.title : undefined
  return Predicate.hasProperty(title, "enum") && Array.isArray(title.enum) ? title.enum.join() : undefined
}

/** Completes the schemas of problems and returns the titles by code. */
export const completeProblems = (schemas: Schemas): ReadonlyMap<string, string> => {
  const titles = new Map<string, string>()
  for (const [name, schema] of Object.entries(schemas)) {
    const { properties, required } = { properties: {}, required: [], ...schema }
    const title = titleOf(properties)
    if (title === undefined || !members.every((member) => Object.hasOwn(properties, member))) continue
    const code = codeOf(name)
    titles.set(code, title)
    Object.assign(schema, {
      description: `${title} ${advice[code] ?? ""}`.trim(),
      required: [...new Set([...members, ...required])]
    })
  }
  return titles
}

/** Describes a response by the problems that it may contain. */
export const describeProblems = (
  titles: ReadonlyMap<string, string>,
  { content }: OpenApi.OpenApiSpecResponse
): string =>
  [...JSON.stringify(content).matchAll(/"#\/components\/schemas\/([a-z_]+)/g)]
    .map(([, code = ""]) => `- \`${code}\`: ${titles.get(code)}`)
    .join("\n")

/** Names the problems by their code throughout a document. */
export const renameToCodes = (document: string): string =>
  document.replace(/"((?:#\/components\/schemas\/)?[a-z_]+)Encoded"(?=[,:}\]])/g, '"$1"')
