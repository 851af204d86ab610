/** Problems for callers: the classes of `api/Problems`, and one for problems that an operation does not declare. */
import { Data, Effect, Predicate, Schema } from "effect"
import { HttpClientError } from "effect/http"
import * as Problems from "../api/Problems.ts"

/**
 * A problem that the operation does not declare, for example `route_not_found` because of a wrong base URL, or a code that is
 * newer than this client. `code` and `status` say what it is.
 */
export class UnexpectedProblem extends Data.TaggedError("UnexpectedProblem")<{
  readonly code: string
  /** The HTTP status. */
  readonly status: number
  readonly title: string
  /** What happened in this request, for people. */
  readonly detail?: string | undefined
  /** The request: `urn:developer-api:request:<x-request-id>`. */
  readonly instance?: string | undefined
}> {
  override get message() {
    return `${this.code}: ${this.detail ?? this.title}`
  }
}

type Instance<Class> = Class extends new (...args: never) => infer Self ? Self : never

type Known = { [Name in keyof typeof Problems]: Instance<(typeof Problems)[Name]> }[keyof typeof Problems]

/** A problem that an operation declares, or `UnexpectedProblem`. */
export type Problem = Extract<Known, { readonly code: string }> | UnexpectedProblem

const classes = Object.values(Problems).filter((member) => typeof member === "function")

/**
 * Whether a failure is a problem of the API. `tag` restricts the check to one code, such as `version_conflict`, or to
 * `UnexpectedProblem`. Other failures mean that no answer arrived, or that the answer could not be decoded.
 */
export const isProblem: {
  (failure: unknown): failure is Problem
  <Tag extends Problem["_tag"]>(failure: unknown, tag: Tag): failure is Extract<Problem, { readonly _tag: Tag }>
} = (failure: unknown, tag?: string): failure is Problem =>
  (failure instanceof UnexpectedProblem || classes.some((known) => failure instanceof known)) &&
  (tag === undefined || (Predicate.hasProperty(failure, "_tag") && failure._tag === tag))

const ProblemBody = Schema.Struct({
  code: Schema.String,
  title: Schema.String,
  detail: Schema.optionalKey(Schema.String),
  instance: Schema.optionalKey(Schema.String)
})

/**
 * If an answer is a problem that the endpoint does not declare, fails with `UnexpectedProblem`. Other failures stay as they are.
 */
export const withUnexpected = (answer: Effect.Effect<unknown, unknown, unknown>) =>
  Effect.catchIf(answer, HttpClientError.isHttpClientError, (error) => {
    const { response } = error
    if (response?.headers["content-type"]?.startsWith("application/problem+json") !== true) return Effect.fail(error)
    return response.json.pipe(
      Effect.flatMap(Schema.decodeUnknownEffect(ProblemBody)),
      Effect.mapError(() => error),
      Effect.flatMap((problem) => Effect.fail(new UnexpectedProblem({ ...problem, status: response.status })))
    )
  })
