/** Classes of problems: RFC 9457 bodies with a stable `code`. */
import { Effect, Schema } from "effect"
import { HttpApiError } from "effect/http-api"

/** The members of an example that have no fixed value in the schema of the problem. */
export interface Example {
  readonly detail: string
  readonly [member: string]: unknown
}

interface Declaration<Detail, Members> {
  readonly title: string
  /** What a caller can do about it, for the reference. A problem that no operation returns has none. */
  readonly remedy?: string
  /** What happened, for people: the text that a problem has by default, or what makes texts of the values of a request. */
  readonly detail: Detail
  /** The members beside `code` and those that RFC 9457 defines. */
  readonly members?: Members
  /** Default: `detail` alone. `document/Problems.ts` has the examples that depend on an operation. */
  readonly example?: (detail: Detail) => Example
}

/** The static members of a class of problems. */
export interface Declared<Code, Status, Detail> {
  readonly code: Code
  readonly status: Status
  readonly title: string
  readonly remedy: string | undefined
  readonly detail: Detail
  readonly example: Example | undefined
}

/** Makes a class of problems. */
export const problem =
  <Self>() =>
  <
    const Code extends string,
    const Status extends number,
    const Detail,
    const Members extends HttpApiError.ProblemExtensionFields = {}
  >(
    code: Code,
    status: Status,
    { detail, example, members, remedy, title }: Declaration<Detail, Members>
  ) => {
    const text = typeof detail === "string" ? detail : undefined
    const member = Schema.optionalKey(Schema.String)
    const fields = {
      detail: text === undefined ? member : member.pipe(Schema.withConstructorDefault(Effect.succeed(text))),
      code: Schema.tag(code)
    }
    const declared = { type: `urn:developer-api:problem:${code}`, status, title } as const
    const statics: Declared<Code, Status, Detail> = {
      code,
      status,
      title,
      remedy,
      detail,
      example: example?.(detail) ?? (text === undefined ? undefined : { detail: text })
    }
    return Object.assign(HttpApiError.Problem<Self>()(code, declared, Object.assign(fields, members)), statics)
  }
