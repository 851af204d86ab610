/** The bearer token that every operation requires (contract §3). */
import { Context } from "effect"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import type { Policy, Scope } from "./Access.ts"
import type { KeyId, MemberId, ProjectId } from "./schema/Ids.ts"
import {
  CredentialInvalid,
  CredentialMissing,
  EntitlementUnavailable,
  MembershipUnavailable,
  ModuleUnavailable,
  RateLimiterUnavailable,
  RateLimitExceeded,
  ScopeMissing,
  ServiceUnavailable
} from "./Problems.ts"

/** The size of a token bucket. The bucket is refilled evenly over the window. */
export interface RateLimit {
  readonly limit: number
  readonly windowSeconds: number
}

/** The token bucket of a project for one policy. */
export interface Bucket extends RateLimit {
  readonly policy: Policy
  readonly key: string
  /** The value of the header `ratelimit-policy`. */
  readonly description: string
}

/** The limits of a project that has no limits of its own (contract §4). */
export const defaultRateLimits: Record<Policy, RateLimit> = {
  read: { limit: 1200, windowSeconds: 60 },
  write: { limit: 300, windowSeconds: 60 },
  messages: { limit: 60, windowSeconds: 60 }
}

/** The caller: the API key of a request, with the settings of the key's project. */
export class Principal extends Context.Service<
  Principal,
  {
    readonly projectId: ProjectId
    readonly keyId: KeyId
    readonly scopes: ReadonlyArray<Scope>
    readonly memberId: MemberId | null
    /** The IANA time zone of the project. The value is up to a second old, like all data of a key. */
    readonly timeZone: string
    readonly buckets: Readonly<Record<Policy, Bucket>>
  }
>()("developer-api/api/Principal") {}

/** The security scheme of the OpenAPI document. `bearer` is in lower case, because viewers do not recognize other spellings. */
export const DeveloperBearer = {
  description: "A project API key, issued with `npm run --silent cli -- token issue`.",
  type: "http",
  scheme: "bearer"
}

/** Resolves the bearer token of a request to a `Principal`, checks its access, and takes a token of its rate limit. */
export class Authentication extends HttpApiMiddleware.Service<Authentication, { provides: Principal }>()(
  "developer-api/api/Authentication",
  {
    requiredForClient: true,
    error: [
      CredentialMissing,
      CredentialInvalid,
      EntitlementUnavailable,
      ModuleUnavailable,
      MembershipUnavailable,
      ScopeMissing,
      ServiceUnavailable,
      RateLimitExceeded,
      RateLimiterUnavailable
    ]
  }
) {}
