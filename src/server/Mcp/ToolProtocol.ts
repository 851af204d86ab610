/**
 * Reads the input of an operation from the arguments of a tool call. One object has the arguments for all parts of the request.
 * The answer is JSON, with the headers of an HTTP answer.
 */
import { Predicate } from "effect"
import type { HttpServerResponse } from "effect/http"
import type * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import { type LocatedFault, locationOf } from "../../api/schema/Locations.ts"
import { unexpectedBody } from "../../api/schema/Shape.ts"
import { isUnsafe, unsafeMessage } from "../../platform/UnsafeText.ts"
import { checkBody } from "../decoding/BodyFaults.ts"
import type { Parts } from "../decoding/RequestFaults.ts"

export type Arguments = Readonly<Record<string, unknown>>

/** The answer of an operation, a success or a problem. */
export interface ToolAnswer {
  readonly status: number
  /** JSON. */
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
}

/** `collected` has the headers that are in the state of the request. */
export const answerOf = (
  { body, headers, status }: HttpServerResponse.HttpServerResponse,
  collected: ToolAnswer["headers"]
): ToolAnswer => ({
  status,
  body: body._tag === "Uint8Array" ? (body.text ?? Buffer.from(body.body).toString("utf8")) : "",
  headers: { ...headers, ...collected }
})

/**
 * Divides the arguments of a call into the parts of a request: `body`, the `idempotency-key`, the arguments that the path names,
 * and all others. The others go to the query, so that an unknown argument is reported as an unknown parameter. `params`, the
 * part for the path, simply has all arguments, because its decoder ignores unknown names.
 */
export const partsOf = ({ headers, path, payload }: HttpApiEndpoint.Top): ((given: Arguments) => Parts) => {
  const inPath = Array.from(path.matchAll(/:([A-Za-z]+)/g), ([, name = ""]) => name)
  const takesBody = payload.size > 0
  const takesKey = headers !== undefined

  return (given) => {
    const query: Record<string, unknown> = {}
    const faults: Array<LocatedFault> = []
    for (const name of inPath) {
      const value = given[name]
      if (typeof value === "string" && isUnsafe(value)) faults.push([`path/${name}`, unsafeMessage])
    }
    for (const [name, value] of Object.entries(given)) {
      if (name === "body" || (name === "idempotencyKey" && takesKey) || inPath.includes(name)) continue
      if (isUnsafe(name)) {
        faults.push(["query", `has a parameter whose name ${unsafeMessage}`])
        continue
      }
      const location = locationOf("query", [name])
      if (typeof value === "string" && isUnsafe(value)) faults.push([location, unsafeMessage])
      else if (!isScalar(value)) faults.push([location, "must be a string or a number"])
      define(query, name, typeof value === "number" ? String(value) : value)
    }
    if (takesBody !== "body" in given) faults.push(takesBody ? ["body", "is required"] : unexpectedBody)
    const { body } = given
    return {
      params: given,
      query,
      headers: takesKey && "idempotencyKey" in given ? { "idempotency-key": given["idempotencyKey"] } : {},
      body: takesBody ? checkBody(body) : undefined,
      faults
    }
  }
}

const isScalar = (value: unknown) => Predicate.isString(value) || Predicate.isNumber(value)

/** Sets an own member, even one with a name such as `__proto__`. */
const define = (target: object, name: string, value: unknown) =>
  Object.defineProperty(target, name, { value, enumerable: true, configurable: true, writable: true })
