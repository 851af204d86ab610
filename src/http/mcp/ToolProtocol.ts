/**
 * Reads the input of an operation from the arguments of a tool call. One object has the arguments for all parts of the request.
 * The answer is JSON, with the headers of an HTTP answer.
 */
import { Context, Predicate, type Schema, SchemaAST } from "effect"
import type { HttpServerResponse } from "effect/http"
import type { HttpApiEndpoint } from "effect/http-api"
import { type BodyLimits, MaxBody } from "../../api/Requests.ts"
import {
  type LocatedFault,
  locationOf,
  maxFaults,
  membersOf,
  unexpectedBody,
  unknown
} from "../../api/schema/Faults.ts"
import { isUnsafe, unsafeMessage } from "../../platform/Text.ts"
import { type Body, checkBody, excessOf } from "../path/JsonBody.ts"
import type { Parts } from "../path/RequestShape.ts"

export type Arguments = Readonly<Record<string, unknown>>

export interface ToolAnswer {
  readonly status: number
  /** JSON. */
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
  /** The code of the problem; undefined for a success. */
  readonly problem: string | undefined
}

/** Makes the answer of a call. `collected` has the headers from the state of the request. Faults name the arguments. */
export const answerOf = (
  { body, headers, status }: HttpServerResponse.HttpServerResponse,
  collected: ToolAnswer["headers"],
  problem: string | undefined
): ToolAnswer => {
  const text = body._tag === "Uint8Array" ? (body.text ?? Buffer.from(body.body).toString("utf8")) : ""
  return {
    status,
    body: problem === "validation_failed" ? withArguments(text) : text,
    headers: { ...headers, ...collected },
    problem
  }
}

/** Names the arguments where a problem names the parts of an HTTP request: `limit` for `query/limit`. */
const withArguments = (problem: string): string => {
  const { detail, errors, ...others }: Record<string, unknown> = JSON.parse(problem)
  const located = Object.entries(Predicate.isObject(errors) ? errors : {}).map(([location, messages]) => [
    argumentOf(location),
    messages
  ])
  return JSON.stringify({
    ...others,
    detail: String(detail).split(", ").map(argumentOf).join(", "),
    errors: Object.fromEntries(located)
  })
}

const argumentOf = (location: string) =>
  location.replace(/(^|: )header\/idempotency-key/, "$1idempotencyKey").replace(/(^|: )(?:path|query)\//, "$1")

/**
 * Divides the arguments of a call into the parts of a request: body, idempotency key, path and query. An argument that is null or
 * empty counts as absent, because models fill optional arguments in that way. `params`, the part for the path, has all arguments,
 * because its decoder ignores unknown names.
 */
export const partsOf = ({
  annotations,
  headers,
  path,
  payload,
  query: parameters
}: HttpApiEndpoint.Top): ((given: Arguments) => Parts) => {
  const inPath = Array.from(path.matchAll(/:([A-Za-z]+)/g), ([, name = ""]) => name)
  const inQuery = membersIn(parameters)
  const inBody = new Set([...payload.values()].flatMap(({ schemas }) => schemas.flatMap(membersIn)))
  const takesBody = payload.size > 0
  const limits = Context.get(annotations, MaxBody)
  const takesKey = membersIn(headers).includes("idempotency-key")
  const known = [...inPath, ...inQuery, ...(takesBody ? ["body"] : []), ...(takesKey ? ["idempotencyKey"] : [])]
  const unknownFault = (name: string): LocatedFault => {
    if (isUnsafe(name)) return ["arguments", `has an argument whose name ${unsafeMessage}`]
    if (inBody.has(name)) return [locationOf("query", [name]), "belongs under body"]
    const listed = known.length === 0 ? "this tool has no arguments" : `the arguments are ${known.join(", ")}`
    return [locationOf("query", [name]), `${unknown}: ${listed}`]
  }

  return (all) => {
    const given: Arguments = Object.fromEntries(
      Object.entries(all).filter(([, value]) => value !== null && value !== "")
    )
    const query: Record<string, unknown> = {}
    const faults: Array<LocatedFault> = []
    for (const [name, value] of Object.entries(given)) {
      const location = `${inPath.includes(name) ? "path" : "query"}/${name}`
      if (name === "body") {
        if (!takesBody) faults.push(unexpectedBody)
      } else if (!known.includes(name)) {
        faults.push(unknownFault(name))
      } else if (typeof value === "string" && isUnsafe(value)) {
        faults.push([location, unsafeMessage])
      } else if (inQuery.includes(name)) {
        if (!Predicate.isString(value) && !Predicate.isNumber(value))
          faults.push([location, "must be a string or a number"])
        query[name] = typeof value === "number" ? String(value) : value
      }
      if (faults.length > maxFaults) break
    }
    if (takesBody && !("body" in given)) faults.push(["body", "is required"])
    return {
      params: given,
      query,
      headers: takesKey && "idempotencyKey" in given ? { "idempotency-key": given["idempotencyKey"] } : {},
      body: takesBody ? bodyOf(given["body"], limits) : undefined,
      faults
    }
  }
}

const membersIn = (schema: Schema.Top | undefined): ReadonlyArray<string> => {
  if (schema === undefined) return []
  const ast = SchemaAST.toEncoded(schema.ast)
  return SchemaAST.isUnion(ast) ? ast.types.flatMap(membersOf) : membersOf(ast)
}

/** Reads a body. Some agents send it as the JSON text of an object. */
const bodyOf = (given: unknown, limits: BodyLimits): Body => {
  if (typeof given !== "string" || !/^\s*\{/.test(given)) return checkBody(given, limits)
  const excess = excessOf(given, limits)
  if (excess !== undefined) return { value: undefined, faults: [excess], isDecodable: false }
  try {
    return checkBody(JSON.parse(given), limits)
  } catch {
    return checkBody(given, limits)
  }
}
