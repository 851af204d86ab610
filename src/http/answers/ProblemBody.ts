/** The body of a problem (contract §2): the answer to a request, or a part of it. */
import { Predicate } from "effect"
import { faultDetail } from "../../api/schema/Locations.ts"
import { ValidationFailed } from "../../api/Problems.ts"
import { redactSecrets } from "../../secrets/Redaction.ts"

/** An instance of any class of `api/Problems`. */
export interface Problem {
  readonly _tag: string
  readonly type: string
  readonly title: string
  readonly status: number
  readonly code: string
  readonly detail?: string
}

export const isProblem = (u: unknown): u is Problem =>
  Predicate.hasProperty(u, "code") && Predicate.hasProperty(u, "type") && Predicate.hasProperty(u, "status")

/** Returns the body as JSON. `requestId` is the id of the request that has the problem. */
export const problemBody = (problem: Problem, requestId: string): string => {
  const { code, detail = detailOf(problem), status, title, type, ...extensions } = problem
  const body = { type, title, status, detail, instance: `urn:developer-api:request:${requestId}`, code, ...extensions }
  return redactSecrets(JSON.stringify(body))
}

/** A `ValidationFailed` without a detail gets the locations of its faults as its detail. */
const detailOf = (problem: Problem): string | undefined =>
  problem instanceof ValidationFailed ? faultDetail({ errors: problem.errors, omitted: 0 }) : undefined
