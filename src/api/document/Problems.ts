/** Problems in the OpenAPI document: their wire form, meaning, remedy and examples. */
import { Predicate } from "effect"
import type { OpenApi } from "effect/http-api"
import { type Access, defaultRateLimits } from "../Access.ts"
import * as Problems from "../Problems.ts"
import type { BodyLimits } from "../Requests.ts"
import { faultDetail } from "../schema/Faults.ts"
import type { Example } from "../schema/Problem.ts"

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

const declared = new Map(
  Object.values(Problems).flatMap((member) => ("code" in member ? [[`${member.code}`, member]] : []))
)

export const completeProblems = (schemas: OpenApi.OpenAPISpec["components"]["schemas"]): void => {
  for (const [name, schema] of Object.entries(schemas)) {
    // The suffix marks the schema of the wire form.
    const problem = declared.get(name.replace(/Encoded$/, ""))
    if (problem === undefined) continue
    const { properties, required: own } = { properties: {}, required: [], ...schema }
    for (const [member, property] of Object.entries(properties)) {
      const description = members[member]
      if (description !== undefined && Predicate.isObject(property)) Object.assign(property, { description })
    }
    Object.assign(schema, {
      description: `${problem.title} ${problem.remedy ?? ""}`.trim(),
      required: [...new Set([...required, ...own])]
    })
  }
}

const problemsOf = ({ content }: OpenApi.OpenApiSpecResponse) =>
  [...JSON.stringify(content).matchAll(/"#\/components\/schemas\/([a-z_]+)/g)].flatMap(
    ([, code = ""]) => declared.get(code) ?? []
  )

export const describeProblems = (response: OpenApi.OpenApiSpecResponse): string =>
  problemsOf(response)
    .map(({ code, title }) => `- \`${code}\`: ${title}`)
    .join("\n")

export const renameToCodes = (document: string): string =>
  document.replace(/"((?:#\/components\/schemas\/)?[a-z_]+)Encoded"(?=[,:}\]])/g, '"$1"')

const ofOperation = (
  { module, policy, scope }: Access["Service"],
  { bytes }: BodyLimits,
  { parameters }: OpenApi.OpenAPISpecOperation
): Readonly<Record<string, Example>> => {
  const errors = faultsOf(parameters.map((parameter) => `${parameter.in}/${parameter.name}`))
  // Every operation declares all four problems of 403 (contract §15), also the one that needs no scope and no module.
  const [requiredScope, requiredModule] = [scope ?? "crm.clients.read", module ?? "crm"]
  return {
    validation_failed: { detail: faultDetail({ errors, omitted: 0 }), errors },
    scope_missing: { detail: Problems.ScopeMissing.detail(requiredScope), requiredScope },
    module_unavailable: { detail: Problems.ModuleUnavailable.detail(requiredModule) },
    body_too_large: { detail: Problems.BodyTooLarge.detail(bytes) },
    rate_limit_exceeded: { detail: Problems.RateLimitExceeded.detail(policy, defaultRateLimits[policy]) }
  }
}

const faultsOf = (locations: ReadonlyArray<string>): Readonly<Record<string, ReadonlyArray<string>>> =>
  locations.includes("header/idempotency-key")
    ? { "header/idempotency-key": ["is required"] }
    : locations.includes("query/limit")
      ? { "query/limit": ["must be an integer from 1 to 100"] }
      : locations.includes("path/conversationId")
        ? { "path/conversationId": ["must be a UUID"] }
        : { [locations[0] ?? "query"]: ["must be a string of 1 to 160 characters"] }

export const exampleProblems = (
  response: OpenApi.OpenApiSpecResponse,
  access: Access["Service"],
  limits: BodyLimits,
  operation: OpenApi.OpenAPISpecOperation
): Readonly<Record<string, unknown>> => {
  const examples = ofOperation(access, limits, operation)
  const instance = "urn:developer-api:request:0b9e6c1a-52d7-4f6e-9a53-7c1d2e8f4a60"
  return Object.fromEntries(
    problemsOf(response).map(({ code, example, status, title }) => {
      const fixed = { type: `urn:developer-api:problem:${code}`, title, status, instance, code }
      return [code, { ...fixed, ...(examples[code] ?? example) }]
    })
  )
}
