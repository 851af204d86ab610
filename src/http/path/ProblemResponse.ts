/** Turns failures into problems, and problems into answers (contract §2). */
import { Cause, Effect, Predicate } from "effect"
import { HttpServerResponse } from "effect/http"
import { Internal, ProviderOutcomeUnknown, ValidationFailed } from "../../api/Problems.ts"
import type { CurrentRequestShape } from "../../platform/CurrentRequest.ts"
import { ProjectLocked } from "../../sql/Database.ts"
import { faultDetail } from "../../api/schema/Faults.ts"
import { redactSecrets } from "../../platform/Text.ts"

const headers: Readonly<Record<string, (problem: Problem) => Record<string, string>>> = {
  credential_missing: () => ({ "www-authenticate": 'Bearer realm="developer-api"' }),
  credential_invalid: () => ({ "www-authenticate": 'Bearer realm="developer-api", error="invalid_token"' }),
  scope_missing: (problem) => ({
    "www-authenticate": `Bearer error="insufficient_scope", scope="${
      "requiredScope" in problem ? String(problem.requiredScope) : ""
    }"`
  }),
  rate_limiter_unavailable: () => ({ "retry-after": "1" }),
  service_unavailable: () => ({ "retry-after": "1" }),
  provider_outcome_unknown: () => ({ "retry-after": "1" })
}

/** Returns the body as JSON. Also records the problem's code in the state of the request. */
export const renderProblem = (problem: Problem, request: CurrentRequestShape) => {
  request.problem = problem.code
  const body = problemBody(problem, request.id)
  return { status: problem.status, body, headers: headers[problem.code]?.(problem) ?? {} }
}

export const problemResponse = (
  problem: Problem,
  request: CurrentRequestShape
): HttpServerResponse.HttpServerResponse => {
  const { body, headers, status } = renderProblem(problem, request)
  return HttpServerResponse.text(body, { status, contentType: "application/problem+json", headers })
}

/**
 * Returns the problem that answers a failure: `internal` if it is none, and the 503 problem of the operation
 * (`provider_outcome_unknown` for a message send) instead of `service_unavailable`, unless the project is locked.
 */
export const problemOf = (cause: Cause.Cause<unknown>, current: CurrentRequestShape): Effect.Effect<Problem> => {
  const error: unknown = Cause.squash(cause)
  if (!isProblem(error)) {
    return Effect.as(Effect.logError("A request failed", cause), new Internal())
  }
  const isOutage = error.code === "service_unavailable" && !(error instanceof ProjectLocked)
  return Effect.succeed(isOutage ? current.unavailable(error.detail ?? "") : error)
}

/** A message send answers this problem instead of `service_unavailable`, except while the project is locked (contract §8). */
export const outcomeUnknown = (detail: string) =>
  new ProviderOutcomeUnknown({ detail: `${detail} Keep the idempotency-key.`, messageId: null })

/** An instance of any class of `api/Problems`. */
export interface Problem {
  readonly _tag: string
  readonly type: string
  readonly title: string
  readonly status: number
  readonly code: string
  readonly detail?: string
}

const isProblem = (u: unknown): u is Problem =>
  Predicate.hasProperty(u, "code") && Predicate.hasProperty(u, "type") && Predicate.hasProperty(u, "status")

/**
 * Returns the body as JSON. `requestId` is the id of the request that has the problem. A `ValidationFailed` without a detail gets the
 * locations of its faults as its detail.
 */
export const problemBody = (problem: Problem, requestId: string): string => {
  const located = problem instanceof ValidationFailed ? faultDetail({ errors: problem.errors, omitted: 0 }) : undefined
  const { code, detail = located, status, title, type, ...extensions } = problem
  const body = { type, title, status, detail, instance: `urn:developer-api:request:${requestId}`, code, ...extensions }
  return redactSecrets(JSON.stringify(body))
}
