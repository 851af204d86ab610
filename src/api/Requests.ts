/**
 * The middleware of all operations, with the problems that it answers; the layers are in `http/path/`. A request passes it from the
 * outermost to the innermost, in the order of the contract's checks (§1): `ProblemHandling`, `Authentication`, `RequestShape`, `JsonBody`.
 */
import { Context } from "effect"
import { HttpApiMiddleware } from "effect/http-api"
import { Principal } from "./Access.ts"
import * as Problems from "./Problems.ts"

/**
 * In the service, renders the problem of a failed operation; in the client, repeats the request. The problems listed here can end any
 * operation. Two of them end a connection, before an operation begins.
 */
export class ProblemHandling extends HttpApiMiddleware.Service<ProblemHandling>()(
  "developer-api-service/api/Requests/ProblemHandling",
  {
    error: [Problems.RequestTimeout, Problems.HeadersTooLarge, Problems.Internal, Problems.ServiceUnavailable]
  }
) {}

/** The security scheme of the OpenAPI document. `bearer` is in lower case, because viewers do not recognize other spellings. */
export const DeveloperBearer = {
  description: "A project API key, issued with `npm run --silent cli -- token issue`.",
  type: "http",
  scheme: "bearer"
}

/** Resolves the bearer token of a request to a `Principal`, checks its access, and takes a token of its rate limit. */
export class Authentication extends HttpApiMiddleware.Service<Authentication, { provides: Principal }>()(
  "developer-api-service/api/Requests/Authentication",
  {
    requiredForClient: true,
    error: [
      Problems.CredentialMissing,
      Problems.CredentialInvalid,
      Problems.EntitlementUnavailable,
      Problems.ModuleUnavailable,
      Problems.MembershipUnavailable,
      Problems.ScopeMissing,
      Problems.ServiceUnavailable,
      Problems.RateLimitExceeded,
      Problems.RateLimiterUnavailable
    ]
  }
) {}

/** Refuses a request that does not have the shape of its operation. */
export class RequestShape extends HttpApiMiddleware.Service<RequestShape>()(
  "developer-api-service/api/Requests/RequestShape",
  {
    error: Problems.ValidationFailed
  }
) {}

/** The limits of a body (contract §1). They bound the time that it takes to refuse one. */
export interface BodyLimits {
  /** Maximum size, in bytes. */
  readonly bytes: number
  /** Maximum number of entries of all its lists and objects. */
  readonly entries: number
  /** Maximum number of members of all its objects, which are entries too. */
  readonly members: number
}

export const usualBody: BodyLimits = { bytes: 256 * 1024, entries: 6_000, members: 6_000 }

/** The limits of the body of an operation. */
export const MaxBody = Context.Reference<BodyLimits>("developer-api-service/api/Requests/MaxBody", {
  defaultValue: () => usualBody
})

/** Reads the body of an operation that takes one: its size, its media type, its syntax and its shape. */
export class JsonBody extends HttpApiMiddleware.Service<JsonBody>()("developer-api-service/api/Requests/JsonBody", {
  error: [Problems.BodyTooLarge, Problems.UnsupportedMediaType, Problems.MalformedJson, Problems.ValidationFailed]
}) {}
