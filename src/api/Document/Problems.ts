/** Problems in the OpenAPI document: as they are sent, with what they mean and what to do about them. */
import { Predicate } from "effect"
import type * as OpenApi from "effect/http-api/OpenApi"
import { advice } from "./Advice.ts"

type Schemas = OpenApi.OpenAPISpec["components"]["schemas"]

/** What every problem carries on the wire, though a program that makes one need not say it. */
const members = ["type", "title", "status", "instance", "code"]

/** Problems are called by their code; the suffix tells the wire's form from the program's, which no reader needs. */
const codeOf = (name: string) => name.replace(/Encoded$/, "")

const titleOf = (properties: object): string | undefined => {
  const title: unknown = Predicate.hasProperty(properties, "title") ? properties.title : undefined
  return Predicate.hasProperty(title, "enum") && Array.isArray(title.enum) ? title.enum.join() : undefined
}

/** Completes the schemas of problems, and returns each one's title by its code. */
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

/** What an answer of several problems says of itself. */
export const meaningsOf = (titles: ReadonlyMap<string, string>, { content }: OpenApi.OpenApiSpecResponse): string =>
  [...JSON.stringify(content).matchAll(/"#\/components\/schemas\/([a-z_]+)/g)]
    .map(([, code = ""]) => `- \`${code}\`: ${titles.get(code)}`)
    .join("\n")

/** Calls problems by their code throughout a document. */
export const calledByCode = (document: string): string =>
  document.replace(/"((?:#\/components\/schemas\/)?[a-z_]+)Encoded"(?=[,:}\]])/g, '"$1"')
