/**
 * The outer middleware of an operation: `problems`, then `authentication`, which also authorizes a request by its `Authorization` header
 * (contract §3). The middleware of its shape and body (`RequestShape.ts`) is within it.
 */
import type { Socket } from "node:net"
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { Cause, Clock, Context, Effect, Layer, Option, Predicate } from "effect"
import { HttpServerRequest } from "effect/http"
import { Access, Principal } from "../../api/Access.ts"
import { Authentication, ProblemHandling } from "../../api/Requests.ts"
import { CurrentRequest, type CurrentRequestShape } from "../../platform/CurrentRequest.ts"
import { monotonicMillis } from "../../platform/MonotonicTime.ts"
import { makeThrottle } from "../limits/RateLimits.ts"
import { nameServerSpan } from "../../telemetry/Telemetry.ts"
import { GivenParts } from "./RequestShape.ts"
import { outcomeUnknown, problemOf, problemResponse } from "./ProblemResponse.ts"
import {
  CredentialInvalid,
  CredentialMissing,
  EntitlementUnavailable,
  MembershipUnavailable,
  ModuleUnavailable,
  ScopeMissing,
  type ServiceUnavailable
} from "../../api/Problems.ts"
import { type Credential, Credentials, present, type Presented, type Verified } from "../auth/Credentials.ts"

/** Names the route and the span of a request, and renders the problem that ends it. */
export const problems = Layer.succeed(ProblemHandling, (operation, { endpoint }) => {
  const { policy } = Context.getUnsafe(endpoint.annotations, Access)
  const spanName = `${endpoint.method} ${endpoint.path}`

  return Effect.withFiber((fiber) => {
    const current = fiber.getRef(CurrentRequest)
    current.route = endpoint.path
    if (policy === "messages") current.unavailable = outcomeUnknown
    // The span of a tool's call keeps the name of the endpoint of agents, which is its route.
    if (fiber.getRef(GivenParts) === undefined) nameServerSpan(fiber.context, spanName)
    // If an operation was interrupted, the caller has left or the process is ending.
    return Effect.catchCauseIf(operation, Predicate.not(Cause.hasInterruptsOnly), (cause) =>
      Effect.map(problemOf(cause, current), (problem) => problemResponse(problem, current))
    )
  })
})

/**
 * The bearer token: credential (401) → entitlement, module, membership, scope (403) → rate limit (429, 503).
 * A step that need not wait (a known credential, a bucket in memory) runs synchronously, because scheduling it in the fiber costs
 * time.
 */
export const authentication = Layer.effect(
  Authentication,
  Effect.gen(function* () {
    const authenticate = yield* makeAuthenticate
    const throttle = yield* makeThrottle

    return Authentication.of((operation, { endpoint }) => {
      const access = Context.getUnsafe(endpoint.annotations, Access)
      return Effect.withFiber((fiber) => {
        const request = Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest)
        const { headers, socket } = NodeHttpServerRequest.toIncomingMessage(request)
        const now = monotonicMillis(fiber.getRef(Clock.Clock))
        const current = fiber.getRef(CurrentRequest)
        const authorized = Effect.flatMapEager(
          authenticate(headers.authorization, socket, now, current),
          (credential) => authorize(credential, access)
        )
        return Effect.flatMapEager(authorized, (credential) =>
          Effect.flatMapEager(throttle(credential.buckets[access.policy], current, now), () =>
            Effect.provideService(operation, Principal, credential)
          )
        )
      })
    })
  })
)

type Unverified = CredentialMissing | CredentialInvalid | ServiceUnavailable
type Refusal = EntitlementUnavailable | ModuleUnavailable | MembershipUnavailable | ScopeMissing

/** Verifies the token of an `Authorization` header, and notes its key as the caller. `now` is the monotonic time in milliseconds. */
export const makeAuthenticate = Effect.map(
  Credentials,
  (credentials) =>
    (
      authorization: string | undefined,
      connection: Socket,
      now: number,
      current: CurrentRequestShape
    ): Effect.Effect<Credential, Unverified> => {
      if (authorization === undefined) return Effect.fail(new CredentialMissing())
      const last = connection.lastToken
      const presented = last?.authorization === authorization ? last : parse(authorization, connection)
      if (presented === undefined) return Effect.fail(new CredentialInvalid())
      const { verified } = presented
      current.namedKeyId = presented.token.keyId
      if (verified !== undefined && now < verified.until) {
        current.caller = verified.credential
        return Effect.succeed(verified.credential)
      }
      return Effect.flatMap(credentials.verify(presented.token), (verified): Effect.Effect<Credential, Unverified> => {
        if (Option.isNone(verified)) return Effect.fail(new CredentialInvalid())
        presented.verified = verified.value
        current.caller = verified.value.credential
        return Effect.succeed(verified.value.credential)
      })
    }
)

const authorize = (credential: Credential, access: Access["Service"]): Effect.Effect<Credential, Refusal> => {
  const refusal = refusalOf(credential, access)
  return refusal === undefined ? Effect.succeed(credential) : Effect.fail(refusal)
}

/** The scheme is case-insensitive, and one or more spaces follow it (RFC 9110, section 11.4). */
const bearer = /^bearer +(.*[^ ].*)$/i

interface LastToken {
  readonly authorization: string
  readonly token: Presented
  verified: Verified | undefined
}

declare module "node:net" {
  interface Socket {
    /**
     * The last token of the connection. While its requests have the same token, only the first request parses and hashes the token.
     * The token is verified again when its last verification has expired (`Verified.until`).
     */
    lastToken?: LastToken | undefined
  }
}

const parse = (authorization: string, connection: Socket): LastToken | undefined => {
  const text = bearer.exec(authorization)?.[1]
  const token = text === undefined ? undefined : present(text)
  if (token === undefined) return undefined
  const last = { authorization, token, verified: undefined }
  connection.lastToken = last
  return last
}

/** Returns the first problem, in the order of the contract (§3); undefined if access is allowed. */
export const refusalOf = (credential: Credential, access: Access["Service"]): Refusal | undefined => {
  if (!credential.entitlements.includes("developer_api")) return new EntitlementUnavailable()
  if (access.module !== null && !credential.modules.includes(access.module)) {
    return new ModuleUnavailable({ detail: ModuleUnavailable.detail(access.module) })
  }
  if (!credential.membership) {
    return new MembershipUnavailable({ detail: MembershipUnavailable.detail(credential.memberId) })
  }
  if (access.scope !== null && !credential.scopes.includes(access.scope)) {
    return new ScopeMissing({ detail: ScopeMissing.detail(access.scope), requiredScope: access.scope })
  }
  return undefined
}
